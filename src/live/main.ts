// The live page: connects the feed, the store and the views. Thread: browser.
//
//   feed --> store --(what changed)--> scheduler --(one animation frame)--> views
import { Bar } from './bar.ts'
import { BlockView } from './block-view.ts'
import { byId, listenToToken, setAttribute, setText } from './dom.ts'
import { Endpoints } from './endpoints.ts'
import { Graph } from './graph.ts'
import { Heat } from './heat.ts'
import { HotKeys } from './hot-keys.ts'
import { executionHelp, listenToKeys, showHelp } from './keyboard.ts'
import { Lanes } from './lanes.ts'
import { LogView } from './log-view.ts'
import { Now } from './now.ts'
import { PageFeed } from './page-feed.ts'
import { type Change, PageStore } from './page-store.ts'
import { Scheduler } from './scheduler.ts'
import { Selection } from './selection.ts'
import { SourcePanel } from './source-panel.ts'
import { addSourceButtons } from './sources.ts'
import { type Facts, stateOf } from './state.ts'
import { onThemeChange, startTheme, switchTheme } from './theme.ts'
import { TimeLine } from './time-line.ts'

/** A hidden tab lets its socket go after this long, and opens afresh after that long. */
const releaseMs = 60_000
const freshMs = 5 * 60_000
const barMs = 1_000

/** Which views show what changed, beside the bar. */
const viewsOf: Readonly<Record<Change, readonly string[]>> = {
  block: ['now', 'line', 'block', 'heat', 'graph'],
  tps: ['now'],
  lifecycle: ['now', 'lanes'],
  top: ['keys'],
  mark: ['line'],
  status: [],
}

startTheme()
const scheduler = new Scheduler()
const selection = new Selection(() => {
  drawControls()
  scheduler.markAll()
})
const store = new PageStore((change) => {
  if (selection.pausedAt === null) scheduler.mark(...viewsOf[change], 'bar')
})
const feed = new PageFeed({
  origin: location.origin,
  store,
  changed: () => scheduler.now('bar'),
})
let hiddenAtMs = 0
let isReleased = false
let releaseTimer = 0

const panel = new SourcePanel(store)
const redraw = (name: string) => () => scheduler.now(name)
const views = {
  block: new BlockView(store, selection, redraw('block')),
  heat: new Heat(store, selection, redraw('heat')),
  graph: new Graph(store, selection, redraw('graph')),
  lanes: new Lanes(store, selection, redraw('lanes')),
  endpoints: new Endpoints(location.origin, () => scheduler.mark('endpoints')),
}
addViews()
addSourceButtons(store, panel, views)
listen()
listenToKeys({
  ' ': togglePause,
  ArrowLeft: () => views.block.move(-1),
  ArrowRight: () => views.block.move(1),
  Home: () => views.block.move(Number.NEGATIVE_INFINITY),
  End: () => views.block.move(Number.POSITIVE_INFINITY),
  l: () => selection.set({ pinned: null, pausedAt: null }),
  '/': () => byId('filter').focus(),
  t: switchTheme,
  g: () => views.graph.toggle(redraw('graph')),
  '?': () => showHelp(panel, executionHelp),
  Escape: clear,
})
drawControls()
onThemeChange(() => scheduler.markAll())
void feed.start()

function addViews(): void {
  const bar = new Bar()
  scheduler.add('bar', {
    everyMs: 200,
    draw: (nowMs) => bar.draw(stateOf(facts(nowMs), nowMs), store, feed.ageMs(nowMs)),
  })
  scheduler.add('now', new Now(store, selection, redraw('now')))
  scheduler.add('line', new TimeLine(store, selection, redraw('line')))
  for (const [name, view] of Object.entries(views)) scheduler.add(name, view)
  scheduler.add('keys', new HotKeys(store, selection))
  scheduler.add('log', new LogView(store.log))
  store.log.changed = () => scheduler.mark('log')
  setInterval(() => scheduler.mark('bar'), barMs)
}

function facts(nowMs: number): Facts {
  const { pausedAt } = selection
  return {
    link: feed.link,
    isHidden: document.visibilityState === 'hidden',
    isPaused: pausedAt !== null,
    behind: pausedAt === null ? 0 : Math.max(0, store.history.newest - pausedAt),
    hasBlock: store.history.length > 0,
    toCatchUp: feed.toCatchUp,
    ageMs: feed.ageMs(nowMs),
    lastFrameAtMs: feed.lastFrameAtMs,
    retryAtMs: feed.retryAtMs,
    closeCode: feed.closeCode,
    isSilent: feed.isSilent,
    refusedFor: feed.refusedFor,
    slow: feed.slow,
  }
}

function listen(): void {
  byId('pause').addEventListener('click', togglePause)
  byId('theme').addEventListener('click', switchTheme)
  byId('help').addEventListener('click', () => showHelp(panel, executionHelp))
  byId('block-back').addEventListener('click', () => views.block.move(-1))
  byId('block-next').addEventListener('click', () => views.block.move(1))
  byId('block-live').addEventListener('click', () => selection.set({ pinned: null }))
  byId('filter').addEventListener('input', (event) => {
    const { value } = event.target as HTMLInputElement
    selection.set({ address: value.trim().toLowerCase() })
  })
  for (const button of document.querySelectorAll<HTMLElement>('[data-range]'))
    button.addEventListener('click', () => selection.set({ range: Number(button.dataset.range) }))
  listenToToken((token) => feed.useToken(token))
  document.addEventListener('visibilitychange', onVisibility)
}

function togglePause(): void {
  const newest = store.history.newest
  const isPaused = selection.pausedAt !== null
  if (isPaused || !Number.isNaN(newest)) selection.set({ pausedAt: isPaused ? null : newest })
}

function clear(): void {
  byId('filter').blur()
  selection.set({ pinned: null, address: '' })
}

function drawControls(): void {
  const filter = byId<HTMLInputElement>('filter')
  if (filter.value.trim().toLowerCase() !== selection.address) filter.value = selection.address
  setAttribute(byId('block-live'), 'aria-pressed', String(selection.pinned === null))
  setText(byId('pause'), selection.pausedAt === null ? 'pause' : 'go on')
  for (const button of document.querySelectorAll<HTMLElement>('[data-range]'))
    setAttribute(button, 'aria-pressed', String(button.dataset.range === String(selection.range)))
  document.body.classList.toggle('kiosk', selection.isKiosk)
}

/** Hidden: nothing is drawn; later the socket is let go, so that the server has one client less. */
function onVisibility(): void {
  const isHidden = document.visibilityState === 'hidden'
  setAttribute(document.body, 'data-state', 'hidden')
  scheduler.setHidden(isHidden)
  clearTimeout(releaseTimer)
  if (isHidden) {
    hiddenAtMs = performance.now()
    releaseTimer = setTimeout(() => {
      isReleased = true
      feed.release()
    }, releaseMs)
    return
  }
  if (isReleased) feed.resume(performance.now() - hiddenAtMs > freshMs)
  isReleased = false
  scheduler.markAll()
}
