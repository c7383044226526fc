// Where each card's figures come from: fields, frame kind and REST path. Thread: browser.
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

/** By section or tile. */
function sourcesOf(store: PageStore, views: TableViews): Readonly<Record<string, Source>> {
  const frame = (fields: string, title: string): Source => ({
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
      title: 'Proposed to Finalized',
      fields: 'Lifecycle.block_age_ms where to_stage is Finalized',
      kind: 'Lifecycle',
      path: '/v1/blocks/lifecycle',
    },
    line: {
      title: 'Time line',
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
      fields: 'Gap, Resume and Warning frames, closes, and changes that the page noticed',
      kind: 'Gap',
      path: '/v1/status',
      body: () => store.log.lines,
    },
  }
}

/** Gives every card and tile its button. */
export function addSourceButtons(store: PageStore, panel: SourcePanel, views: TableViews): void {
  for (const [name, source] of Object.entries(sourcesOf(store, views))) {
    const card = document.querySelector(`#${name}, [data-tile=${name}]`)
    card?.querySelector('h2')?.after(panel.button(source))
  }
}
