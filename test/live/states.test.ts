// Tests the states of the live page in a real browser against a real endpoint: what it cannot see,
// it says.
import type { Browser, WebSocketRoute } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { WebSocket } from 'ws'
import {
  launchBrowser,
  noBrowser,
  pageDeadlineMs,
  skipped,
  untilShown as until,
} from '../testkit/browser.ts'
import { HandClock } from '../testkit/fake-execution.ts'
import { type Live, openLive } from '../testkit/live-service.ts'
import { openTab, type Tab, type TabOptions } from '../testkit/live-tab.ts'
import { bandColours, near } from '../testkit/pixels.ts'
import { isSlice, someOf } from '../testkit/slice.ts'

// A browser on a busy machine is slow, and a test waits for several things.
vi.setConfig({ testTimeout: 4 * pageDeadlineMs, hookTimeout: 2 * pageDeadlineMs })

let browser: Browser
let live: Live | null = null
let tab: Tab | null = null

beforeAll(async () => {
  if (noBrowser === null) browser = await launchBrowser()
})
afterAll(() => browser?.close())
afterEach(async () => {
  const problems = await tab?.close()
  await live?.close()
  tab = null
  live = null
  expect(problems ?? []).toEqual([])
})

/** Errors that a closed or refusing server puts into the console. */
const refusals = /Failed to load resource|WebSocket connection|ERR_/

async function open(service: Live, options: TabOptions = {}): Promise<Tab> {
  live = service
  tab = await openTab(browser, service.origin, options)
  return tab
}

const pill = (opened: Tab) => opened.text('#pill-text')

describe.skipIf(noBrowser !== null)(`the live page${skipped}`, () => {
  test('waits for the first block, then is live', async () => {
    const service = await openLive({}, 0)
    const opened = await open(service, { expected: refusals })
    await opened.reaches('empty')
    expect(await opened.text('#banner')).toBe('waiting for the first block')
    service.run()
    await opened.reaches('live')
    expect(await pill(opened)).toBe('live')
  })

  test('says how many frames it still catches up with', async () => {
    const service = await openLive()
    const held: string[] = []
    let pass: WebSocketRoute | null = null
    const opened = await open(service, {
      before: (page) =>
        page.routeWebSocket(/v1\/ws/, (route) => {
          route.connectToServer().onMessage((message) => {
            if (String(message).includes('"Resume"')) route.send(message)
            else held.push(String(message))
          })
          pass = route
        }),
    })
    await opened.reaches('catching-up')
    expect(await pill(opened)).toBe('catching up, 420 frames')
    await until(() => held.length >= 420, 'the resumed frames')
    for (const message of held) pass!.send(message)
    await opened.reaches('live', 'quiet')
  })

  test('draws a gap of the source as a hatched column and counts it', async () => {
    const service = await openLive()
    const opened = await open(service)
    await opened.reaches('live', 'quiet')
    service.chain.lose(88_120, 88_190)
    service.chain.add(5)
    await opened.page.getByText('source lost 71 events (88120 to 88190)').first().waitFor()
    await until(async () => (await opened.text('#bar-gaps')) === '1', 'the counter of gaps')
    // The chart of TPS has nothing else in this colour.
    const { page } = opened
    const chart = page.locator('#line-charts canvas').first()
    await until(
      async () => near(await chart.screenshot(), bandColours.sequential) > 100,
      'hatching',
    )
  })

  test('draws what it did not see after a snapshot, and asks to resume first', async () => {
    const service = await openLive({ events: { framesMax: 64 } })
    const routes: WebSocketRoute[] = []
    let isBlocked = false
    let isRestBlocked = false
    const opened = await open(service, {
      expected: refusals,
      before: async (page) => {
        await page.route('**/v1/**', (route) => (isRestBlocked ? route.abort() : route.continue()))
        await page.routeWebSocket(/v1\/ws/, (route) => {
          routes.push(route)
          if (isBlocked) void route.close()
          else route.connectToServer()
        })
      },
    })
    await opened.reaches('live', 'quiet')
    const cursor = Number((await opened.text('#bar-seq')).replaceAll(',', ''))
    // Without REST the page cannot poll meanwhile.
    isRestBlocked = true
    isBlocked = true
    await routes[0]!.close()
    service.chain.add(41)
    await until(() => routes.length > 1, 'a second attempt')
    isBlocked = false
    service.run()
    await opened.page
      .getByText(/not seen here: \d+ blocks/)
      .first()
      .waitFor()
    expect(routes.at(-1)!.url()).toContain(`resume_from=${cursor}&run=run-1`)
  })

  test('says that the server restarted when its run is another', async () => {
    const service = await openLive()
    const opened = await open(service, { expected: refusals })
    await opened.reaches('live', 'quiet')
    await service.running.stop()
    await opened.reaches('offline')
    expect(await pill(opened)).toMatch(/^offline, again in \d+ s$/)
    expect(await opened.text('#banner')).toContain('this picture is from')
    const opacity = 'getComputedStyle(document.querySelector("main")).opacity'
    expect(await opened.page.evaluate(opacity)).toBe('0.6')
    live = await openLive({ section: { port: service.port }, deps: { run: 'run-2' } })
    await opened.page.getByText('server restarted').first().waitFor()
    await opened.reaches('live', 'quiet')
  })

  test.skipIf(isSlice)(
    'shows the age of the last event, then that the endpoint is about to close',
    async () => {
      const clock = new HandClock()
      const opened = await open(await openLive({ clock }))
      await opened.reaches('live', 'quiet')
      clock.advance(14_000)
      await opened.reaches('degraded')
      expect(await pill(opened)).toMatch(/^no event for 1\d s$/)
      expect(await opened.text('#banner')).toMatch(/^the stream closes in \d+ s/)
    },
  )

  test('has the age of the server right after it is opened, not one that starts anew', async () => {
    const clock = new HandClock()
    const service = await openLive({ clock })
    clock.advance(25_000)
    const opened = await open(service)
    await opened.reaches('live', 'quiet', 'degraded')
    expect(await pill(opened)).toMatch(/^no event for (2[5-9]|[3-9]\d) s$/)
    // The frames that are resumed are as old as the source's silence.
    await until(async () => (await opened.text('#bar-seq')) !== '–', 'the resumed frames')
    expect(await pill(opened)).toMatch(/^no event for (2[5-9]|[3-9]\d) s$/)
  })

  test.each(
    someOf([
      [{ kind: 'generated' }, 'generated data'],
      [{ kind: 'recording', file: 'night.zst' }, 'recording night.zst'],
      [{ kind: 'ring' }, 'event ring of a node'],
    ] as const),
  )('names the chain, and what its data are: %o', async (source, badge) => {
    const opened = await open(await openLive({ deps: { source } }))
    await opened.reaches('live', 'quiet')
    expect(await opened.text('#source')).toBe(badge)
    expect(await opened.text('#chain')).toBe('Monad devnet, EVM')
  })

  test('has no verdict on a block that is too small to be parallel', async () => {
    const service = await openLive()
    const opened = await open(service)
    await opened.reaches('live', 'quiet')
    service.chain.addSmall(13)
    const tile = '[data-tile=efficiency]'
    await until(async () => (await opened.text(tile)).includes('78.6'), 'the small block')
    expect(await opened.text(`${tile} .note`)).toBe('no verdict: 13 transactions')
    expect(await opened.page.locator(tile).getAttribute('data-tone')).toBe('')
    expect(await opened.text('#block-body .notes')).toContain('no verdict')
    expect(await opened.text('#log-lines')).not.toContain(String(service.chain.newest))
  })

  test('tells a source that is silent for long from a server that is gone', async () => {
    const service = await openLive()
    let isSilent = true
    const opened = await open(service, {
      expected: refusals,
      before: (page) =>
        page.route('**/v1/status', (route) =>
          isSilent ? route.fulfill({ status: 503, body: '{}' }) : route.continue(),
        ),
    })
    await opened.reaches('offline')
    expect(await pill(opened)).toMatch(/^source silent, again in \d+ s$/)
    expect(await opened.text('#banner')).toContain('its source had no event for 30 s')
    isSilent = false
    await opened.reaches('live', 'quiet')
  })

  test.skipIf(isSlice)('polls when the stream is refused, and streams when it may', async () => {
    const service = await openLive({ section: { connectionsPerAddress: 1 } })
    const other = new WebSocket(`${service.ws}/v1/ws`)
    await until(() => other.readyState === WebSocket.OPEN, 'the other stream')
    service.run()
    const opened = await open(service, { expected: refusals })
    await opened.reaches('refused')
    expect(await opened.text('#banner')).toContain('ten streams are open from this address')
    const before = await opened.text('#bar-block')
    await until(async () => (await opened.text('#bar-block')) !== before, 'a polled block')
    other.close()
    await opened.reaches('live')
  })

  test('asks for a token, keeps it in memory, and streams with a ticket', async () => {
    const principal = { subscription: { id: 'one' }, digest: 'one' } as never
    const gate = {
      admit: (_: unknown, { xToken }: { xToken: string }) => (xToken === 'good' ? principal : null),
      readmits: () => true,
      lease: () => () => {},
      isExpired: () => false,
    } as never
    const service = await openLive({ section: { auth: 'token' }, deps: { gate } })
    const opened = await open(service, { expected: refusals })
    await opened.reaches('unauthorized')
    await opened.page.locator('#token').fill('good')
    await opened.page.getByRole('button', { name: 'connect' }).click()
    service.run()
    await opened.reaches('live')
    expect(opened.sockets.at(-1)).toMatch(/&ticket=/)
    expect(opened.sockets.join()).not.toContain('good')
    expect(await opened.page.evaluate('JSON.stringify(localStorage) + document.cookie')).toBe('{}')
    expect(await opened.page.locator('#token').inputValue()).toBe('')
  })

  test('says when the tab was too slow', async () => {
    const service = await openLive()
    let sent: WebSocketRoute | null = null
    const opened = await open(service, {
      before: (page) =>
        page.routeWebSocket(/v1\/ws/, (route) => {
          route.connectToServer()
          sent = route
        }),
    })
    await opened.reaches('live', 'quiet')
    service.run()
    sent!.send('{"seq":0,"Warning":{"code":"backpressure","dropped":42}}')
    await opened.reaches('slow')
    expect(await opened.text('#banner')).toContain('this tab was too slow: 42 frames replaced')
  })

  test('freezes the picture on pause, counts the blocks behind, and goes on', async () => {
    const service = await openLive()
    const opened = await open(service)
    await opened.reaches('live', 'quiet')
    await opened.page.locator('#pause').click()
    await opened.reaches('paused')
    expect(await opened.text('#pause')).toBe('go on')
    const frozen = await opened.text('#now')
    service.chain.add(43)
    await opened.page.getByText('paused, 43 blocks behind').waitFor()
    expect(await opened.text('#now')).toBe(frozen)
    await opened.page.locator('#pause').click()
    await opened.reaches('live', 'quiet')
    expect(await opened.text('#pause')).toBe('pause')
    await until(async () => (await opened.text('#now')) !== frozen, 'new figures')
  })
})

describe.skipIf(noBrowser !== null)(`a hidden tab of it${skipped}`, () => {
  const hide = (isHidden: boolean) => `
    globalThis.isHiddenNow = ${isHidden}
    document.dispatchEvent(new Event('visibilitychange'))`
  const draws = async (opened: Tab) => Number(await opened.page.evaluate('globalThis.draws'))

  test('draws nothing, lets its socket go after a minute, and resumes at its cursor', async () => {
    const service = await openLive()
    const opened = await open(service, {
      before: async (page) => {
        await page.clock.install()
        await page.addInitScript(`
          globalThis.isHiddenNow = false
          Object.defineProperty(document, 'visibilityState', {
            get: () => (isHiddenNow ? 'hidden' : 'visible') })
          globalThis.draws = 0
          const clear = CanvasRenderingContext2D.prototype.clearRect
          CanvasRenderingContext2D.prototype.clearRect = function (...area) {
            draws++
            return clear.apply(this, area)
          }`)
      },
    })
    await opened.page.clock.runFor(3000)
    await opened.reaches('live', 'quiet')
    await opened.page.evaluate(hide(true))
    await opened.reaches('hidden')
    const before = await draws(opened)
    service.chain.add(20)
    await opened.page.clock.runFor(10_000)
    expect(await draws(opened)).toBe(before)
    expect(service.running.address).not.toBeNull()
    await opened.page.clock.fastForward(61_000)
    await until(() => clientsOf(service).then((count) => count === 0), 'the socket to close')
    await opened.page.evaluate(hide(false))
    await until(() => opened.sockets.length === 2, 'a second socket')
    expect(opened.sockets[1]).toMatch(/resume_from=\d+&run=run-1/)
    await until(async () => {
      await opened.page.clock.runFor(1000)
      return (await opened.state()) !== 'hidden' && (await draws(opened)) > before
    }, 'the page to draw again')
  })
})

async function clientsOf(service: Live): Promise<number> {
  const response = await fetch(`${service.origin}/v1/status`)
  return ((await response.json()) as { connected_clients: number }).connected_clients
}
