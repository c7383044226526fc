// The live page: connects the feed, the store and the views. Thread: browser.
//
//   feed --> store --(what changed)--> scheduler --(one animation frame)--> views
import { Bar } from './bar.ts'
import { byId, setAttribute } from './dom.ts'
import { Feed } from './feed.ts'
import { Now } from './now.ts'
import { Scheduler } from './scheduler.ts'
import { Selection } from './selection.ts'
import { type Facts, stateOf } from './state.ts'
import { type Change, Store } from './store.ts'
import { onThemeChange, startTheme, switchTheme } from './theme.ts'
import { TimeLine } from './time-line.ts'

/** A hidden tab lets its socket go after this long, and opens afresh after that long. */
const releaseMs = 60_000
const freshMs = 5 * 60_000
const barMs = 1_000

/** Which views show what changed. */
const viewsOf: Readonly<Record<Change, readonly string[]>> = {
  block: ['now', 'line'],
  tps: ['now'],
  lifecycle: ['now'],
  top: [],
  mark: ['line', 'bar'],
  status: ['bar'],
}

startTheme()
const scheduler = new Scheduler()
const selection = new Selection(() => {
  drawControls()
  scheduler.markAll()
})
const store = new Store((change) => {
  if (selection.pausedAt === null) scheduler.mark(...viewsOf[change])
})
const feed = new Feed({
  origin: location.origin,
  store,
  changed: () => scheduler.now('bar'),
})
let hiddenAtMs = 0
let isReleased = false
let releaseTimer = 0

addViews()
listen()
drawControls()
onThemeChange(() => scheduler.markAll())
void feed.start()

function addViews(): void {
  const bar = new Bar()
  scheduler.add('bar', {
    everyMs: 200,
    draw: (nowMs) => bar.draw(stateOf(facts(nowMs), nowMs), store, feed.ageMs(nowMs)),
  })
  scheduler.add('now', new Now(store, selection, () => scheduler.now('now')))
  scheduler.add('line', new TimeLine(store, selection, () => scheduler.now('line')))
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
    refusedFor: feed.refusedFor,
    slow: feed.slow,
  }
}

function listen(): void {
  byId('pause').addEventListener('click', togglePause)
  byId('theme').addEventListener('click', switchTheme)
  for (const button of document.querySelectorAll<HTMLElement>('[data-range]'))
    button.addEventListener('click', () => selection.set({ range: Number(button.dataset.range) }))
  byId('token-form').addEventListener('submit', (event) => {
    event.preventDefault()
    const input = byId<HTMLInputElement>('token')
    feed.useToken(input.value.trim())
    input.value = ''
  })
  document.addEventListener('visibilitychange', onVisibility)
}

function togglePause(): void {
  const newest = store.history.newest
  const isPaused = selection.pausedAt !== null
  if (isPaused || !Number.isNaN(newest)) selection.set({ pausedAt: isPaused ? null : newest })
}

function drawControls(): void {
  setAttribute(byId('pause'), 'aria-pressed', String(selection.pausedAt !== null))
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
