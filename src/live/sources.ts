// What each card shows and where its figures come from: fields, frame kind and REST path.
// Thread: browser.
import type { BlockView } from './block-view.ts'
import type { Endpoints } from './endpoints.ts'
import type { Graph } from './graph.ts'
import type { Heat } from './heat.ts'
import type { Lanes } from './lanes.ts'
import type { PageStore } from './page-store.ts'
import type { Source, SourcePanel } from './source-panel.ts'

export interface TableViews {
  readonly block: BlockView
  readonly heat: Heat
  readonly graph: Graph
  readonly lanes: Lanes
  readonly endpoints: Endpoints
}

const getBlock = {
  jsonrpc: '2.0',
  id: 1,
  method: 'eth_getBlockByNumber',
  params: ['latest', false],
}
const contention = { kind: 'ContentionData', path: '/v1/contention' }

/** What a card or tile shows, for a reader who sees it for the first time. */
const abouts: Readonly<Record<string, string>> = {
  tps: 'Transactions per second over the last 2.5 blocks.',
  efficiency:
    'How much of the newest block ran in parallel: 100 % minus its time on the clock over the ' +
    'time of its transactions one by one.',
  contended:
    'Storage slots that several transactions of a block accessed. Only where one writes must ' +
    'others wait.',
  critical: 'The longest chain of transactions that wait for each other, of all in the block.',
  wall: 'Execution time of the newest block on the clock.',
  finalize: 'From proposal to finalization: median of 50 blocks, and what 99 % stay below.',
  line:
    'One point per block. Hatched: not seen by this page or the source. Click on a block to pin ' +
    'it.',
  block: 'The newest or pinned block: time on the clock against time one by one, longest chain.',
  heat:
    'A row per storage slot, a column per block; colour: transactions that accessed it. Click ' +
    'on a row to filter.',
  graph: 'Contracts called by the same transactions: contention of one holds up the others.',
  lanes: 'A bar per proposal, from proposal over finalization to verification. Cross: rejected.',
  keys:
    'Accounts and storage slots accessed most in these five minutes. The paler end of a bar may ' +
    'be too much.',
  endpoints: 'State, calls, latency, errors and refusals of each product over two seconds.',
  log: 'What happened since this page was opened: gaps, reconnections, rejected blocks.',
}

type Untold = Omit<Source, 'about'>

/** By section or tile. */
function sourcesOf(store: PageStore, views: TableViews): Readonly<Record<string, Untold>> {
  const frame = (fields: string, title: string): Untold => ({
    ...contention,
    title,
    fields: fields.replaceAll(/\w+_\w+/g, 'ContentionData.$&'),
    body: () => views.block.frame,
  })
  return {
    tps: {
      title: 'TPS',
      fields: 'TPS: transactions of the last 2.5 blocks',
      kind: 'TPS',
      path: '/v1/tps',
    },
    efficiency: frame('parallel_efficiency_pct', 'Parallel efficiency'),
    contended: frame('contended_slot_count, written_contended_slot_count', 'Contended slots'),
    critical: frame('critical_path_txn_count, total_txn_count', 'Critical path'),
    wall: frame('block_wall_time_ns', 'Block execution'),
    finalize: {
      title: 'Finalization',
      fields: 'Lifecycle.block_age_ms where to_stage is Finalized',
      kind: 'Lifecycle',
      path: '/v1/blocks/lifecycle',
    },
    line: {
      title: 'Timeline',
      fields: 'one row per block: GET /v1/blocks; then TPS and ContentionData of the stream',
      kind: '',
      path: '/v1/blocks?last=600',
      body: () => ({ marks: store.marks }),
    },
    block: {
      ...frame('total_tx_time_ns, block_wall_time_ns, top_contended_slots', 'Block'),
      path: `/ -d '${JSON.stringify(getBlock)}'`,
    },
    heat: { ...frame('top_contended_slots', 'Slots by block'), table: () => views.heat.table() },
    graph: {
      ...frame('top_contended_contracts, contract_edges', 'Contracts'),
      table: () => views.graph.table(),
    },
    lanes: {
      title: 'Lifecycle',
      fields: 'Lifecycle.to_stage, block_age_ms; at open stage_timings_ms of REST',
      kind: 'Lifecycle',
      path: '/v1/blocks/lifecycle',
      table: () => views.lanes.table(),
    },
    keys: {
      title: 'Hot keys',
      fields: 'TopAccesses.account, TopAccesses.storage: key, count, error',
      kind: 'TopAccesses',
      path: '/v1/top',
    },
    endpoints: {
      title: 'Endpoints',
      fields: 'counters and histograms of /metrics, by difference over two seconds',
      kind: '',
      path: '/metrics',
    },
    log: {
      title: 'Log',
      fields: 'Gap, Resume and Warning frames, closes, changes that the page noticed',
      kind: 'Gap',
      path: '/v1/status',
      body: () => store.log.lines,
    },
  }
}

/** Gives every card and tile its button, and its title the explanation. */
export function addSourceButtons(store: PageStore, panel: SourcePanel, views: TableViews): void {
  for (const [name, source] of Object.entries(sourcesOf(store, views))) {
    const card = document.querySelector(`#${name}, [data-tile=${name}]`)
    const title = card?.querySelector('h2')
    const about = abouts[name] ?? ''
    title?.setAttribute('title', about)
    title?.after(panel.button({ ...source, about }))
  }
}
