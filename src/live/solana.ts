// The Solana page: connects its feed, its store and its views. Thread: browser.
//
//   feed: GET /v1/solana --> store --> scheduler --(one animation frame)--> views
import { byId, listenToToken, make, setAttribute, setText } from './dom.ts'
import { figure } from './format.ts'
import { listenToKeys, showHelp } from './keyboard.ts'
import { LogView } from './log-view.ts'
import { Scheduler } from './scheduler.ts'
import { SolanaBlocks } from './solana-blocks.ts'
import { SolanaFeed, solanaState } from './solana-feed.ts'
import { SolanaStore } from './solana-store.ts'
import { SolanaTables } from './solana-tables.ts'
import { SolanaTiles } from './solana-tiles.ts'
import { SourcePanel } from './source-panel.ts'
import { StateBar } from './state-bar.ts'
import { onThemeChange, startTheme, switchTheme } from './theme.ts'

const barMs = 1_000

const help = {
  keys: [
    ['Space', 'pause, and go on'],
    ['T', 'light or dark'],
    ['1 to 8', 'jump to a section'],
    ['?', 'this list'],
  ],
  words: [
    ['processed', 'executed by a node; its fork may still lose'],
    ['confirmed', 'voted for by two thirds of the stake'],
    ['finalized', 'cannot be taken back'],
    ['lag', 'slots behind the best node of the set'],
    ['first arrivals', 'share of what this node was the first of its set to send'],
    ['fill', 'what a block cost in compute units, of what it may cost'],
    ['landed', 'in a confirmed block, and it succeeded'],
    ['units', 'compute units: execution, signatures, write locks and data of a transaction'],
  ],
} as const

/** What each card or tile shows, and the fields that it shows. */
const sources: Readonly<Record<string, readonly [title: string, about: string, fields: string]>> = {
  tps: [
    'Throughput',
    'Transactions per second, votes included, over about ten seconds of confirmed blocks.',
    'sets.stream.tps, sets.stream.blocks.votes',
  ],
  fill: [
    'Block fill',
    'What the newest confirmed block cost in compute units, of what a block may cost.',
    'sets.stream.blocks.cost_units, sets.stream.cost_limit',
  ],
  fees: [
    'Fees',
    'Fees of the newest confirmed block: the median of transactions that are no votes, and all.',
    'sets.stream.blocks.median_fee_lamports, fee_lamports',
  ],
  slot: ['Slot time', 'Time from slot to slot, the median of the last 64.', 'sets.stream.slot_ms'],
  finality: [
    'Finalization',
    'How long ago the finalized block was processed, by slots and their time.',
    'sets.stream.processed, sets.stream.finalized',
  ],
  land: [
    'Time to land',
    'From acceptance by the TPU Sender to the confirmed block, of the last minute.',
    'products.tpu.land_seconds, by difference over a minute',
  ],
  blocks: [
    'Blocks',
    'The last confirmed blocks by slot: cost above, transactions below.',
    'sets.stream.blocks',
  ],
  heads: [
    'Heads',
    'The newest slot at each commitment, and how far it is behind the processed one.',
    'sets.stream.processed, confirmed, finalized',
  ],
  nodes: [
    'Nodes',
    'Each node of each set: its state, slot, lag, and its share of what arrived first.',
    'sets.nodes',
  ],
  products: [
    'Products',
    'Calls, open streams, subscriptions and what was sent, over ten seconds.',
    'products.rpc, products.websocket, products.grpc, by difference over ten seconds',
  ],
  tpu: [
    'TPU Sender',
    'Transactions accepted, landed, expired, failed and rejected, over ten seconds.',
    'products.tpu, by difference over ten seconds',
  ],
  shreds: [
    'ShredStream',
    'Shreds received, first copies of them, sent, dropped and rebuilt, over ten seconds.',
    'products.shredstream, by difference over ten seconds',
  ],
  log: ['Log', 'What happened since this page was opened: changes of nodes and streams.', 'sets'],
}

startTheme()
const scheduler = new Scheduler()
const store = new SolanaStore()
const panel = new SourcePanel(store)
const bar = new StateBar()
const select = byId<HTMLSelectElement>('set')
let pausedAtMs: number | null = null
let troubled = ''

const feed = new SolanaFeed({
  origin: location.origin,
  isHidden,
  take: (document) => pausedAtMs !== null || store.take(document),
  changed: () => {
    noteTrouble()
    scheduler.mark('bar', ...(pausedAtMs === null ? ['tiles', 'blocks', 'tables'] : []))
  },
})

const redraw = (name: string) => () => scheduler.now(name)
const blocks = new SolanaBlocks(store, redraw('blocks'))
scheduler.add('bar', { everyMs: 200, draw: drawBar })
scheduler.add('tiles', new SolanaTiles(store, redraw('tiles')))
scheduler.add('blocks', blocks)
scheduler.add('tables', new SolanaTables(store))
scheduler.add('log', new LogView(store.log))
store.log.changed = () => scheduler.mark('log')
setInterval(() => scheduler.mark('bar'), barMs)
addSources()
listen()
onThemeChange(() => scheduler.markAll())
store.choose(chosenSet())
store.log.add('opened', 'GET /v1/solana is asked once a second')
feed.poll()

function drawBar(nowMs: number): void {
  const { newest, set } = store
  const stream = set?.stream ?? null
  const facts = { feed, document: newest, set: set?.set ?? '', stream, pausedAtMs }
  bar.draw(solanaState({ ...facts, isHidden: isHidden() }, nowMs))
  setText(byId('bar-slot'), figure(stream?.processed))
  const ageMs = stream?.age_ms ?? null
  const isOld = ageMs === null || feed.newAtMs === 0
  const age = isOld ? '–' : `${((ageMs + nowMs - feed.newAtMs) / 1000).toFixed(1)} s`
  setText(byId('bar-age'), age)
  drawSets(newest?.sets.map((one) => one.set) ?? [], set?.set ?? '')
}

/** The choice of a set, where there are several. */
function drawSets(names: readonly string[], shown: string): void {
  byId('set-label').hidden = names.length < 2
  const known = [...select.options].map(({ value }) => value)
  if (known.join('\n') !== names.join('\n'))
    select.replaceChildren(
      ...names.map((name) => {
        const option = make('option', '', name)
        option.value = name
        return option
      }),
    )
  if (select.value !== shown) select.value = shown
}

function addSources(): void {
  for (const [name, [title, about, fields]] of Object.entries(sources)) {
    const heading = document.querySelector(`#${name} h2, [data-tile=${name}] h2`)
    const body = () => (name === 'log' ? store.log.lines : store.newest)
    const table = name === 'blocks' ? { table: () => blocks.table() } : {}
    const source = { title, about, fields, kind: '', path: '/v1/solana', body, ...table }
    heading?.setAttribute('title', about)
    heading?.after(panel.button(source))
  }
}

function listen(): void {
  byId('pause').addEventListener('click', togglePause)
  byId('theme').addEventListener('click', switchTheme)
  byId('help').addEventListener('click', () => showHelp(panel, help))
  select.addEventListener('change', () => {
    history.replaceState(null, '', `#set=${encodeURIComponent(select.value)}`)
    choose()
  })
  addEventListener('hashchange', choose)
  listenToToken((token) => feed.useToken(token))
  document.addEventListener('visibilitychange', onVisibility)
  listenToKeys({ ' ': togglePause, t: switchTheme, '?': () => showHelp(panel, help) })
}

function chosenSet(): string {
  return new URLSearchParams(location.hash.slice(1)).get('set') ?? ''
}

function choose(): void {
  store.choose(chosenSet())
  scheduler.markAll()
}

function togglePause(): void {
  pausedAtMs = pausedAtMs === null ? performance.now() : null
  setText(byId('pause'), pausedAtMs === null ? 'pause' : 'go on')
  scheduler.markAll()
}

/** Once per trouble, for the log and its announcements. */
function noteTrouble(): void {
  if (feed.trouble !== 'none' && feed.trouble !== troubled)
    store.log.add(feed.trouble, 'GET /v1/solana')
  else if (feed.trouble === 'none' && troubled !== '' && troubled !== 'none')
    store.log.add('answered', 'the server answers again')
  troubled = feed.trouble
}

function isHidden(): boolean {
  return document.visibilityState === 'hidden'
}

/** Hidden: nothing is asked or drawn. */
function onVisibility(): void {
  setAttribute(document.body, 'data-state', 'hidden')
  scheduler.setHidden(isHidden())
  if (isHidden()) return
  feed.poll()
  scheduler.markAll()
}
