// Tests the Solana page in a real browser against a real endpoint: figures equal those of REST,
// everyone can read and work it, what is off, down or silent is said in words, and a server that is
// gone, stands still or sends nonsense is named as that.
import axe from 'axe-core'
import type { Browser, Page, Route } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import type { Solana } from '../../src/client/frames.ts'
import {
  launchBrowser,
  noBrowser,
  pageDeadlineMs,
  skipped,
  untilShown as until,
} from '../testkit/browser.ts'
import { openTab, type Tab, type TabOptions } from '../testkit/live-tab.ts'
import { isSlice, someOf } from '../testkit/slice.ts'
import { openSolana, type SolanaService } from '../testkit/solana-service.ts'
import { someNodes } from '../testkit/solana-view.ts'

// A browser on a busy machine is slow, and a test waits for several things.
vi.setConfig({ testTimeout: 4 * pageDeadlineMs, hookTimeout: 2 * pageDeadlineMs })

/** Errors that a closed or refusing server puts into the console. */
const refusals = /Failed to load resource|ERR_/
let browser: Browser
let service: SolanaService | null = null
let tab: Tab | null = null

beforeAll(async () => {
  if (noBrowser === null) browser = await launchBrowser()
})
afterAll(() => browser?.close())
afterEach(async () => {
  const problems = await tab?.close()
  await service?.close()
  tab = null
  service = null
  expect(problems ?? []).toEqual([])
})

async function open(opened: SolanaService, options: TabOptions = {}): Promise<Tab> {
  service = opened
  tab = await openTab(browser, opened.origin, { path: '/live/solana', ...options })
  return tab
}

/** A tab whose document is changed on its way; `change` returns the body, or null for none. */
async function openWith(
  change: (document: Solana, route: Route) => unknown,
  more: Partial<TabOptions> = {},
): Promise<Tab> {
  const before = (page: Page) =>
    page.route('**/v1/solana', async (route) => {
      const answer = await (await fetch(`${service!.origin}/v1/solana`)).text()
      const body = change(JSON.parse(answer), route)
      if (body === null) return
      await route.fulfill({ body: typeof body === 'string' ? body : JSON.stringify(body) })
    })
  return open(await openSolana(), { before, expected: refusals, ...more })
}

const count = (value: number) => new Intl.NumberFormat('en-US').format(value)
const shows = (opened: Tab, selector: string, text: string) =>
  until(async () => (await opened.text(selector)).includes(text), `${selector}: ${text}`)
const row = (opened: Tab, table: string, name: string) =>
  opened.page
    .locator(`#${table} tbody tr:visible`)
    .filter({ has: opened.page.locator('td:first-child', { hasText: name }) })
    .first()
    .locator('td')
    .allTextContents()

describe.skipIf(noBrowser !== null)(`the Solana page${skipped}`, () => {
  test('shows the figures of REST', async () => {
    const opened = await open(await openSolana())
    await opened.reaches('live', 'quiet', 'degraded')
    const answer = await fetch(`${service!.origin}/v1/solana`)
    const { sets, products } = (await answer.json()) as Solana
    const [{ stream, nodes } = { stream: null }] = sets
    const block = stream!.blocks.at(-1)!
    await shows(opened, '#bar-slot', count(stream!.processed!))
    await shows(opened, '[data-tile=tps] b', count(Math.round(stream!.tps!)))
    const fill = ((block.cost_units! / stream!.cost_limit) * 100).toFixed(1)
    await shows(opened, '[data-tile=fill] b', fill)
    await shows(opened, '[data-tile=fees] b', count(block.median_fee_lamports!))
    await shows(opened, '[data-tile=slot] b', String(stream!.slot_ms))
    await shows(opened, '[data-tile=finality] b', '12.8')
    await shows(opened, '[data-tile=finality] .note', '32 slots behind processed')
    // The tables are drawn on their own.
    await shows(opened, '#nodes-body', 'default/2')
    expect(await row(opened, 'heads', 'processed')).toEqual([
      ...['processed', count(stream!.processed!), '0', '0.0'],
    ])
    expect(await row(opened, 'heads', 'confirmed')).toEqual([
      ...['confirmed', count(stream!.confirmed!), '2', '0.8'],
    ])
    expect(await row(opened, 'heads', 'finalized')).toEqual([
      ...['finalized', count(stream!.finalized!), '32', '12.8'],
    ])
    expect(nodes).toHaveLength(someNodes.length)
    expect(await row(opened, 'nodes', 'default/0')).toEqual([
      ...['default/0', '● up', '1,060', '0', '64.3 %', 'fra'],
    ])
    expect(await row(opened, 'nodes', 'default/1')).toEqual([
      ...['default/1', '▲ lagging', '1,001', '59', '35.7 %', 'ams'],
    ])
    expect(await row(opened, 'nodes', 'default/2')).toEqual([
      ...['default/2', '✕ down', '–', '–', '–', ''],
    ])
    expect(await opened.text('#nodes-count')).toBe('1 of 3 up')
    const [, , , , , connections, subscriptions] = await row(opened, 'products', 'websocket')
    const { websocket, tpu, shredstream } = products!
    expect([connections, subscriptions]).toEqual(
      [websocket!.open, websocket!.subscriptions].map(String),
    )
    const [, , , , , streams] = await row(opened, 'products', 'grpc')
    expect(streams).toBe(String(products!.grpc!.open))
    expect((await row(opened, 'tpu', 'accepted')).at(-1)).toBe(count(tpu!.accepted))
    expect((await row(opened, 'tpu', 'landed')).at(-1)).toBe(count(tpu!.landed))
    expect(await opened.text('#tpu-body')).toContain('4 in flight, 1 queued')
    expect((await row(opened, 'shreds', 'in')).at(-1)).toBe(count(shredstream!.received))
    expect((await row(opened, 'shreds', 'out')).at(-1)).toBe(count(shredstream!.sent))
    expect(await opened.text('#shreds-body')).toContain('to 3 destinations')
  })

  test('has rates, times to land and new blocks as they come', async () => {
    const opened = await open(await openSolana())
    await opened.reaches('live')
    const before = await opened.text('#bar-slot')
    service!.run()
    await until(async () => (await opened.text('#bar-slot')) !== before, 'a new slot')
    await until(async () => /^[1-9]/.test((await row(opened, 'tpu', 'landed'))[1]!), 'a rate')
    await until(async () => /^[1-9]/.test((await row(opened, 'shreds', 'out'))[1]!), 'a rate')
    await until(async () => /^[1-9]/.test((await row(opened, 'products', 'rpc'))[2]!), 'a rate')
    await shows(opened, '[data-tile=land] .unit', 's, median')
    const median = Number(await opened.text('[data-tile=land] b'))
    expect(median).toBeGreaterThan(0.6)
    expect(median).toBeLessThan(1.5)
    await shows(opened, '#blocks-notes', '% full')
  })

  test.each(someOf(['light', 'dark'] as const))(
    'has no axe finding and no sideways scroll, %s',
    async (colorScheme) => {
      const opened = await openSolana()
      for (const width of [390, 1440]) {
        const context = { colorScheme, viewport: { width, height: 844 } }
        const one = await open(opened, { context })
        await one.reaches('live', 'quiet', 'degraded')
        await one.page.evaluate(axe.source)
        const found = await one.page.evaluate(
          'axe.run().then(({ violations }) => violations.map((one) => one.id + " " + one.nodes.map((node) => node.target)))',
        )
        expect([width, found]).toEqual([width, []])
        const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'
        expect([width, await one.page.evaluate(wide)]).toEqual([width, 0])
        const paper = 'getComputedStyle(document.body).backgroundColor'
        const dark = (await one.page.evaluate(paper)) === 'rgb(15, 18, 21)'
        expect(dark).toBe(colorScheme === 'dark')
        await one.page.getByRole('button', { name: 'Blocks: source and calls' }).click()
        const dialog = await one.page.evaluate(
          'axe.run("dialog").then(({ violations }) => violations.map((one) => one.id))',
        )
        expect([width, dialog]).toEqual([width, []])
        expect(await one.close()).toEqual([])
        tab = null
      }
    },
  )

  test('cuts nothing at 390 px, has targets of 24 px, and `{}` beside every title', async () => {
    const opened = await open(await openSolana(), {
      context: { viewport: { width: 390, height: 844 } },
    })
    await shows(opened, '#nodes-body', 'default/2')
    const cut = await opened.page.evaluate(`[...document.querySelectorAll(
        'main h2, main .note, main .value, main th, main td, #facts dd')]
      .filter((one) => one.offsetParent !== null)
      .filter((one) => one.scrollWidth > one.clientWidth + 1 ||
        one.getBoundingClientRect().right > innerWidth)
      .map((one) => one.textContent)`)
    expect(cut).toEqual([])
    const small =
      await opened.page.evaluate(`[...document.querySelectorAll('button, input, #pages a')]
      .filter((one) => one.offsetParent !== null)
      .filter((one) => one.offsetWidth < 24 || one.offsetHeight < 24)
      .map((one) => one.id || one.textContent)`)
    expect(small).toEqual([])
    const alone = await opened.page.evaluate(`[...document.querySelectorAll('button.source')]
      .filter((one) => one.offsetTop - one.parentElement.querySelector('h2').offsetTop > 12)
      .map((one) => one.ariaLabel)`)
    expect(alone).toEqual([])
  })

  test('is worked by keys alone', async () => {
    const opened = await open(await openSolana())
    const { page } = opened
    await opened.reaches('live')
    await page.keyboard.press(' ')
    await opened.reaches('paused')
    expect(await opened.text('#pause')).toBe('go on')
    const frozen = await opened.text('main')
    service!.run()
    await page.waitForResponse('**/v1/solana')
    await page.waitForResponse('**/v1/solana')
    expect(await opened.text('main')).toBe(frozen)
    await page.keyboard.press(' ')
    await opened.reaches('live')
    await until(async () => (await opened.text('main')) !== frozen, 'new figures')
    const theme = () => page.locator('html').getAttribute('data-theme')
    expect(await theme()).toBe('light')
    await page.keyboard.press('t')
    expect(await theme()).toBe('dark')
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keys and words' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    await page.keyboard.press('4')
    expect(await page.evaluate('document.activeElement.id')).toBe('nodes')
    const reached = new Set<string>()
    for (let step = 0; step < 40; step++) {
      await page.keyboard.press('Tab')
      const name =
        'document.activeElement.id || document.activeElement.ariaLabel || document.activeElement.textContent'
      reached.add(String(await page.evaluate(name)))
    }
    const wanted = ['Execution', 'pause', 'theme', 'help', 'nodes-body', 'log-save', 'log-lines']
    expect(wanted.filter((name) => !reached.has(name))).toEqual([])
    expect([...reached].filter((name) => name.endsWith('source and calls')).length).toBe(13)
  })

  test('names the call behind every card, and explains each', async () => {
    const { page } = await open(await openSolana())
    await shows(tab!, '#nodes-body', 'default/2')
    const buttons = page.getByRole('button', { name: /source and calls$/ })
    expect(await buttons.count()).toBe(13)
    for (const button of await buttons.all()) {
      const about = await button.locator('xpath=preceding-sibling::h2[1]').getAttribute('title')
      await button.click()
      const text = (await page.locator('#panel-body').textContent()) ?? ''
      expect(text).toContain(`curl -sS ${service!.origin}/v1/solana`)
      expect(text).toContain(about)
      await page.keyboard.press('Escape')
      await page.locator('#panel').waitFor({ state: 'hidden' })
    }
  })

  test('leads to the first page and back, each of three files', async () => {
    const opened = await open(await openSolana())
    const { page } = opened
    await opened.reaches('live')
    expect(opened.requests.filter((url) => /\/live/.test(url))).toHaveLength(3)
    expect(await page.locator('#pages [aria-current=page]').textContent()).toBe('Solana')
    await page.getByRole('link', { name: 'Execution' }).click()
    await page.waitForURL('**/live')
    expect(await page.locator('#pages [aria-current=page]').textContent()).toBe('Execution')
    await page.getByRole('link', { name: 'Solana' }).click()
    await opened.reaches('live')
  })

  test('has a choice of sets where there are several, kept in the link', async () => {
    const opened = await openSolana()
    const [first] = opened.view.sets()
    const heads = { processed: 777, confirmed: 776, finalized: 700 }
    opened.view.others = [
      { name: 'acme', nodes: [], stream: { ...first!.stream!, heads, blocks: [] } },
    ]
    await open(opened)
    await shows(tab!, '#bar-slot', count(first!.stream!.heads.processed!))
    await tab!.page.locator('#set').selectOption('acme')
    await shows(tab!, '#bar-slot', '777')
    await shows(tab!, '#blocks-notes', 'no confirmed block yet')
    expect(await tab!.page.evaluate('location.hash')).toBe('#set=acme')
    await tab!.page.reload()
    await shows(tab!, '#bar-slot', '777')
  })

  test.skipIf(isSlice)('stays under 400 elements, and makes none as time passes', async () => {
    const opened = await open(await openSolana())
    await opened.reaches('live')
    const elements = () => opened.page.evaluate('document.querySelectorAll("*").length')
    const before = await elements()
    expect(before).toBeLessThan(400)
    service!.run()
    for (let answers = 0; answers < 4; answers++) await opened.page.waitForResponse('**/v1/solana')
    expect(await elements()).toBe(before)
  })
})

describe.skipIf(noBrowser !== null)(`what the Solana page says in words${skipped}`, () => {
  test('a server without Solana nodes', async () => {
    const opened = await openSolana()
    opened.view.hasSets = false
    await open(opened)
    await tab!.reaches('empty')
    expect(await tab!.text('#banner')).toBe('no Solana node is configured on this server')
    await shows(tab!, '#nodes-body .notes', 'no Solana node is configured')
    expect(await tab!.page.locator('#nodes table:visible').count()).toBe(0)
  })

  test('a set without a stream, whose nodes are shown all the same', async () => {
    const opened = await openSolana()
    opened.view.hasStream = false
    await open(opened)
    await tab!.reaches('empty')
    expect(await tab!.text('#banner')).toContain('no geyser stream of set default is open')
    await shows(tab!, '#heads-body .notes', 'no geyser stream is open')
    await shows(tab!, '[data-tile=tps] .note', 'no stream')
    expect((await row(tab!, 'nodes', 'default/0'))[1]).toBe('● up')
  })

  test('a stream that is down, one that is silent, and a node that goes down', async () => {
    const opened = await openSolana()
    await open(opened)
    await tab!.reaches('live')
    opened.view.isUp = false
    opened.view.nodes = someNodes.map((node) => ({ ...node, state: 'down' }))
    await tab!.reaches('degraded')
    expect(await tab!.text('#banner')).toBe('no node of set default delivers its geyser stream')
    await shows(tab!, '#log-lines', 'node default/0, up before')
    await shows(tab!, '#nodes-count', '0 of 3 up')
    opened.view.isUp = true
    opened.view.ageMs = 14_000
    await shows(tab!, '#pill-text', 'no block for 1')
    expect(await tab!.text('#banner')).toBe('the stream is open but silent')
  })

  test('products that are off', async () => {
    await openWith((document) => ({ ...document, products: {} }))
    await tab!.reaches('live')
    await shows(tab!, '#products-body', 'off')
    expect((await row(tab!, 'products', 'rpc')).slice(0, 3)).toEqual(['rpc', 'off', '–'])
    await shows(tab!, '#tpu-body .notes', 'TPU is off on this server')
    await shows(tab!, '#shreds-body .notes', 'ShredStream is off on this server')
    await shows(tab!, '[data-tile=land] .note', 'TPU is off')
    expect(await tab!.page.locator('#tpu table:visible, #shreds table:visible').count()).toBe(0)
  })

  test('the first blocks after nobody had asked', async () => {
    const opened = await openSolana({}, 0)
    opened.view.blocks.push(
      { slot: 7, transactions: 3, content: null },
      { slot: 8, transactions: 5, content: null },
    )
    await open(opened)
    await tab!.reaches('live')
    await shows(tab!, '[data-tile=fees] .note', 'reading the next blocks')
    await shows(tab!, '[data-tile=fill] b', '–')
  })

  test('a customer’s view has the chain alone', async () => {
    await open(await openSolana({ section: { page: 'stream' } }))
    await tab!.reaches('live')
    const visible = await tab!.page.locator('main > section:visible').evaluateAll((all) => {
      return all.map(({ id }) => id)
    })
    expect(visible).toEqual(['now', 'blocks', 'heads', 'log'])
    expect(await tab!.page.locator('.tile:visible').count()).toBe(5)
  })
})

describe.skipIf(noBrowser !== null)(`a Solana page without its server${skipped}`, () => {
  test('says that the server is gone, from when its picture is, and goes on by itself', async () => {
    const opened = await openSolana()
    await open(opened, { expected: refusals })
    await tab!.reaches('live')
    await opened.close()
    await tab!.reaches('offline')
    expect(await tab!.text('#pill-text')).toMatch(/^offline, again in \d+ s$/)
    expect(await tab!.text('#banner')).toMatch(/does not answer; this picture is from \d\d:/)
    const opacity = 'getComputedStyle(document.querySelector("main")).opacity'
    expect(await tab!.page.evaluate(opacity)).toBe('0.6')
    service = await openSolana({ section: { port: opened.port } })
    await tab!.reaches('live')
    await shows(tab!, '#log-lines', 'answers again')
  })

  test.each(
    someOf([
      ['cut off', '{"at_ms":1,"sets":[{"set":"def'],
      ['HTML of a proxy', '<html>502</html>'],
      ['of another version', '{"at_ms":5,"sets":[{"set":"default","stream":{"up":"yes"}}]}'],
      ['not an object', 'null'],
    ]),
  )('names a document as unreadable that is %s', async (_, body) => {
    let isBroken = true
    await openWith((document) => (isBroken ? body : document))
    await tab!.reaches('offline')
    expect(await tab!.text('#pill-text')).toMatch(/^unreadable, again in \d+ s$/)
    expect(await tab!.text('#banner')).toContain('not one that this page can read')
    expect(await tab!.text('[data-tile=tps] b')).toBe('–')
    isBroken = false
    await tab!.reaches('live')
  })

  test.skipIf(isSlice)('says when the answers stand still', async () => {
    let kept: Solana | null = null
    await openWith((document) => {
      kept ??= document
      return kept
    })
    await tab!.reaches('live')
    await tab!.reaches('degraded')
    expect(await tab!.text('#pill-text')).toMatch(/^no news for \d+ s$/)
    expect(await tab!.text('#banner')).toContain('stands still')
  })

  test.skipIf(isSlice)('is offline when no answer ends', async () => {
    const held: Route[] = []
    await openWith((_, route) => {
      held.push(route)
      return null
    })
    await tab!.reaches('offline')
    expect(await tab!.text('#pill-text')).toMatch(/^offline, again/)
    for (const route of held) await route.abort().catch(() => {})
  })

  test('keeps its layout with huge, odd and hostile values', async () => {
    const huge = 1e300
    const context = { viewport: { width: 390, height: 844 } }
    await openWith(
      (document) => {
        const text = JSON.stringify(document, (key, value) => {
          if (typeof value !== 'number' || key === 'at_ms') return value
          return key === 'age_ms' ? 10 : huge
        })
        const changed = JSON.parse(text) as Solana
        changed.sets[0]!.nodes![0]!.node = '<img src=x onerror=alert(1)>'.repeat(4)
        changed.sets[0]!.nodes![1]!.region = 'x'.repeat(256)
        return changed
      },
      { context },
    )
    await tab!.reaches('live')
    await shows(tab!, '#nodes-body', '<img src=x')
    expect(await tab!.page.locator('main img').count()).toBe(0)
    const wide = await tab!.page.evaluate(`[...document.querySelectorAll('body *')]
      .filter((one) => one.closest('.scroll, .hidden-text') === null)
      .filter((one) => one.getBoundingClientRect().right > innerWidth)
      .map((one) => one.id + ' ' + one.className + ' ' + one.textContent.slice(0, 99))`)
    expect(wide).toEqual([])
    expect(await tab!.text('main')).not.toMatch(/NaN|Infinity|undefined/)
  })

  test('asks for a token, and keeps it in memory', async () => {
    const principal = { subscription: { id: 'one' }, digest: 'one' } as never
    const gate = {
      admit: (_: unknown, { xToken }: { xToken: string }) => (xToken === 'good' ? principal : null),
      readmits: () => true,
      lease: () => () => {},
      isExpired: () => false,
    } as never
    await open(await openSolana({ section: { auth: 'token' }, deps: { gate } }), {
      expected: refusals,
    })
    await tab!.reaches('unauthorized')
    await tab!.page.locator('#token').fill('good')
    await tab!.page.getByRole('button', { name: 'connect' }).click()
    await tab!.reaches('live')
    expect(tab!.requests.join()).not.toContain('good')
    expect(await tab!.page.evaluate('JSON.stringify(localStorage) + document.cookie')).toBe('{}')
  })

  test('asks nothing while it is hidden, and at once when it is seen again', async () => {
    const hide = (isHidden: boolean) => `
      globalThis.isHiddenNow = ${isHidden}
      document.dispatchEvent(new Event('visibilitychange'))`
    await open(await openSolana(), {
      before: async (page) => {
        await page.clock.install()
        await page.addInitScript(`
          globalThis.isHiddenNow = false
          Object.defineProperty(document, 'visibilityState', {
            get: () => (isHiddenNow ? 'hidden' : 'visible') })`)
      },
    })
    const { page } = tab!
    const asked = () => tab!.requests.filter((url) => url.endsWith('/v1/solana')).length
    await until(async () => {
      await page.clock.runFor(1_000)
      return asked() >= 3 && (await tab!.state()) === 'live'
    }, 'a live page')
    await page.evaluate(hide(true))
    await tab!.reaches('hidden')
    // One may be under way.
    await page.clock.runFor(2_000)
    const before = asked()
    await page.clock.runFor(20_000)
    expect(asked()).toBe(before)
    await page.evaluate(hide(false))
    await until(() => asked() > before, 'a request')
    await until(async () => {
      await page.clock.runFor(1_000)
      return (await tab!.state()) === 'live'
    }, 'a live page')
  })
})
