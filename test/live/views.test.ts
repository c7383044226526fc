// Tests the views of the live page in a real browser: figures equal those of REST, every card names
// its source, keys and links work, and nothing grows.
import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import type { BlockRow, ContentionData, TopAccesses } from '../../src/client/frames.ts'
import {
  launchBrowser,
  noBrowser,
  pageDeadlineMs,
  skipped,
  untilShown as until,
} from '../testkit/browser.ts'
import { type Live, openLive } from '../testkit/live-service.ts'
import { openTab, type Tab, type TabOptions } from '../testkit/live-tab.ts'
import { bandColours, near, type Rgb } from '../testkit/pixels.ts'
import { someOf } from '../testkit/slice.ts'

// A browser on a busy machine is slow, and a test waits for several things.
vi.setConfig({ testTimeout: 4 * pageDeadlineMs, hookTimeout: 2 * pageDeadlineMs })

let browser: Browser
let live: Live
let tab: Tab | null = null

beforeAll(async () => {
  if (noBrowser !== null) return
  browser = await launchBrowser()
  live = await openLive()
})
afterAll(async () => {
  await browser?.close()
  await live?.close()
})
afterEach(async () => {
  const problems = await tab?.close()
  tab = null
  expect(problems ?? []).toEqual([])
})

async function open(options: TabOptions & { isPinned?: boolean } = {}): Promise<Tab> {
  tab = await openTab(browser, live.origin, options)
  await tab.reaches('live', 'quiet', 'degraded')
  if (options.isPinned === true) return tab
  await shows(tab, '#block-number', count(live.chain.newest))
  return tab
}

/** A band lies under its line at a tenth of its strength, on white. */
const tint = (colour: Rgb) =>
  colour.map((value) => Math.round(255 - (255 - value) / 10)) as never as Rgb
const count = (value: number) => new Intl.NumberFormat('en-US').format(value)
const shows = (opened: Tab, selector: string, text: string) =>
  until(async () => (await opened.text(selector)).includes(text), `${selector}: ${text}`)
const get = async <T>(path: string) => (await (await fetch(live.origin + path)).json()) as T
const contention = () => get<ContentionData>('/v1/contention')

describe.skipIf(noBrowser !== null)(`the live page${skipped}`, () => {
  test('shows the figures that REST has for the same block', async () => {
    const opened = await open()
    const body = await contention()
    expect(body.block_number).toBe(live.chain.newest)
    await shows(opened, '[data-tile=tps]', count((await get<{ tps: number }>('/v1/tps')).tps))
    await shows(opened, '[data-tile=efficiency]', body.parallel_efficiency_pct.toFixed(2))
    await shows(opened, '[data-tile=contended]', `${body.contended_slot_count}storage slots`)
    await shows(opened, '[data-tile=contended]', `${body.written_contended_slot_count} of them`)
    const path = `${body.critical_path_txn_count}of ${body.total_txn_count}`
    await shows(opened, '[data-tile=critical]', path)
    const wallMs = body.block_wall_time_ns / 1e6
    await shows(
      opened,
      '[data-tile=wall]',
      wallMs < 100 ? wallMs.toFixed(1) : count(Math.round(wallMs)),
    )
    const top = await get<TopAccesses>('/v1/top')
    await shows(opened, '#keys-body', count(top.account[0]!.count))
    const [slot] = body.top_contended_slots
    await shows(opened, '#block-body', `${slot!.address.slice(0, 6)}…${slot!.address.slice(-4)}`)
  })

  test('opens with the history of REST, and keeps one row per block', async () => {
    const opened = await open({ path: '/live#range=3000' })
    await shows(opened, '[data-range="3000"][aria-pressed=true]', '3,000')
    const before = await opened.page.evaluate('location.hash')
    expect(before).toBe('#range=3000')
    await opened.page.locator('#block-back').focus()
    await opened.page.keyboard.press('Home')
    const { blocks } = await get<{ blocks: BlockRow[] }>('/v1/blocks?last=3000')
    await shows(opened, '#block-number', count(blocks[0]!.block_number))
  })

  test('says so when the block of a link is not kept, and shows no other in its place', async () => {
    const opened = await open({ path: '/live#block=1', isPinned: true })
    const { blocks } = await get<{ blocks: BlockRow[] }>('/v1/blocks?last=3000')
    const oldest = count(blocks[0]!.block_number)
    await shows(opened, '#block-body', `block 1 is not kept; the oldest here is ${oldest}`)
    expect(await opened.text('#block-number')).toBe('1')
    expect(await opened.page.locator('#block-body :is(table, canvas):visible').count()).toBe(0)
    expect(await opened.text('.readout')).toBe('block 1 is not here')
    await opened.page.evaluate('location.hash = "block=99999999999"')
    const newest = count(live.chain.newest)
    await shows(opened, '#block-body', `has not arrived; the newest is ${newest}`)
    await opened.page.keyboard.press('Escape')
    await shows(opened, '#block-number', newest)
    expect(await opened.page.locator('#block-body :is(table, canvas):visible').count()).toBe(3)
  })

  test('says in each panel that nothing matches, and keeps the height of a single row', async () => {
    const opened = await open()
    const { page } = opened
    await page.locator('#filter').fill('hello')
    const unmatched = page.locator('.unmatched:visible')
    await until(async () => (await unmatched.count()) === 4, 'a sentence in four panels')
    expect(await unmatched.allTextContents()).toEqual(
      Array(4).fill('nothing matches; the filter looks for a part of an address, such as 0x12ab'),
    )
    const [key] = (await get<TopAccesses>('/v1/top')).account
    await page.locator('#filter').fill(key!.key)
    const rows = page.locator('#keys-body table').first().locator('tbody tr:visible')
    await until(async () => (await rows.count()) === 1, 'one account')
    expect((await rows.first().boundingBox())!.height).toBeLessThan(30)
    expect(await unmatched.count()).toBe(0)
  })

  test('explains each panel in its title and its panel, and its words in the help', async () => {
    const { page } = await open()
    const titles = page.locator('main h2')
    expect(await titles.count()).toBe(14)
    for (const title of await titles.all()) {
      const about = (await title.getAttribute('title')) ?? ''
      expect([await title.textContent(), about.length > 40]).toEqual([expect.any(String), true])
      await title.locator('xpath=following-sibling::button[1]').click()
      expect(await page.locator('#panel-body').textContent()).toContain(about)
      await page.keyboard.press('Escape')
      // The browser closes a dialog some time after the key; until then the page ignores keys.
      await page.locator('#panel').waitFor({ state: 'hidden' })
    }
    await page.keyboard.press('?')
    await page.locator('#panel-body .words dt').last().waitFor()
    const words = await page.locator('#panel-body .words dt').allTextContents()
    expect(words).toEqual([
      'efficiency',
      'contended',
      'written',
      'critical path',
      'wall',
      'seq',
      'run',
      'gap',
    ])
    // Opened again before the browser has told the page that it was closed.
    await page.evaluate(`new Promise((resolve) => {
      const panel = document.getElementById('panel')
      panel.addEventListener('close', () => setTimeout(resolve))
      panel.close()
      document.getElementById('help').click()
    })`)
    expect(await page.locator('#panel-body .words dt').count()).toBe(words.length)
  })

  test('has legends of the graph and of the matrix, which names its columns', async () => {
    const opened = await open()
    const { page } = opened
    expect(await opened.text('#graph-legend')).toMatch(/size: .*colour: .*hollow: .*line: /)
    await page.keyboard.press('g')
    await shows(opened, '#graph-legend', 'a row and a column per contract')
    const soft: Rgb = [0x56, 0x5e, 0x68]
    // What is drawn above it later moves it down.
    const hasHeads = async () => {
      const map = (await page.locator('#graph-map').boundingBox())!
      const heads = { x: map.x + 100, y: map.y, width: 240, height: 60 }
      return near(await page.screenshot({ clip: heads }), soft) > 200
    }
    await until(hasHeads, 'names of columns')
  })

  test('cuts nothing at 390 px, and has every `{}` beside its title', async () => {
    const context = { viewport: { width: 390, height: 844 } }
    const opened = await open({ context })
    await shows(opened, '#endpoints-body', 'event 0')
    const cut = await opened.page.evaluate(`[...document.querySelectorAll(
        'main h2, main .note, main .value, main th, main td, #endpoints-body, #facts dd, #source')]
      .filter((one) => one.offsetParent !== null)
      .filter((one) => one.scrollWidth > one.clientWidth + 1 ||
        one.getBoundingClientRect().right > innerWidth)
      .map((one) => one.textContent)`)
    expect(cut).toEqual([])
    const alone = await opened.page.evaluate(`[...document.querySelectorAll('button.source')]
      .filter((one) => one.offsetParent !== null)
      .filter((one) => one.offsetTop - one.parentElement.querySelector('h2').offsetTop > 12)
      .map((one) => one.ariaLabel)`)
    expect(alone).toEqual([])
    const heads = opened.page.locator('#endpoints th:visible')
    expect((await heads.allTextContents()).slice(0, 2)).toEqual(['product', 'state'])
  })

  test.each(
    someOf([
      [1280, 720],
      [1440, 900],
      [1920, 1080],
    ]),
  )('fits one screen of %i x %i as a kiosk', async (width, height) => {
    const opened = await open({ path: '/live?kiosk', context: { viewport: { width, height } } })
    const { page } = opened
    expect(await page.evaluate('document.documentElement.scrollHeight')).toBe(height)
    const low = await page.evaluate(`[...document.querySelectorAll('main > section')]
      .filter((one) => one.offsetParent !== null)
      .filter((one) => one.getBoundingClientRect().bottom > innerHeight ||
        one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1)
      .map((one) => one.id)`)
    expect(low).toEqual([])
    for (const id of ['#heat-map', '#graph-map', '#lanes-map'])
      expect((await page.locator(id).boundingBox())!.height).toBeGreaterThan(120)
  })

  test('has its bands in order, each in its colour', async () => {
    const opened = await open()
    const { page } = opened
    // Lines are drawn over the bands: the legend has the words, the chart the colours.
    const legend = (await opened.text('#line-charts')).replaceAll(/\s+/g, ' ')
    expect(legend).toMatch(/90 or more: excellent.*70 to 90: bottlenecks.*below 70: sequential/)
    const chart = page.locator('#line-charts canvas').nth(1)
    const box = (await chart.boundingBox())!
    const clip = (from: number, to: number) => ({
      x: box.x + 60,
      y: box.y + box.height * from,
      width: box.width - 80,
      height: box.height * (to - from),
    })
    const bands = {
      excellent: [0.1, 0.6],
      bottlenecks: [0.7, 0.8],
      sequential: [0.85, 0.95],
    } as const
    const names = Object.keys(bands) as (keyof typeof bands)[]
    for (const name of names) {
      const [from, to] = bands[name]
      const picture = await page.screenshot({ clip: clip(from, to) })
      const seen = names.filter((other) => near(picture, tint(bandColours[other]), 2) > 500)
      expect(seen).toEqual([name])
    }
  })

  test('is worked by keys alone', async () => {
    const { page, ...opened } = await open()
    const pressed = (id: string) => page.locator(`#${id}`).getAttribute('aria-pressed')
    await page.keyboard.press('ArrowLeft')
    await shows(tab!, '#block-number', count(live.chain.newest - 1))
    expect(await page.evaluate('location.hash')).toBe(`#block=${live.chain.newest - 1}`)
    await page.keyboard.press('l')
    await shows(tab!, '#block-number', count(live.chain.newest))
    await page.keyboard.press(' ')
    await opened.reaches('paused')
    await page.keyboard.press(' ')
    await opened.reaches('live', 'quiet', 'degraded')
    await page.keyboard.press('g')
    expect(await pressed('graph-mode')).toBe('true')
    const theme = () => page.locator('html').getAttribute('data-theme')
    expect(await theme()).toBe('light')
    await page.keyboard.press('t')
    expect(await theme()).toBe('dark')
    await page.reload()
    await until(async () => (await theme()) === 'dark', 'the theme that was chosen')
    await page.keyboard.press('/')
    await page.keyboard.type('0xdead')
    expect(await page.evaluate('location.hash')).toBe('#address=0xdead')
    await page.keyboard.press('Escape')
    expect(await page.evaluate('location.hash')).toBe('')
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keys' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    await page.keyboard.press('6')
    expect(await page.evaluate('document.activeElement.id')).toBe('lanes')
  })

  test('reaches every control with Tab', async () => {
    const { page } = await open()
    const reached = new Set<string>()
    for (let step = 0; step < 60; step++) {
      await page.keyboard.press('Tab')
      reached.add(
        String(
          await page.evaluate(
            'document.activeElement.id || document.activeElement.ariaLabel || document.activeElement.textContent',
          ),
        ),
      )
    }
    const wanted = [
      'filter',
      'pause',
      'theme',
      'help',
      '150',
      'block-live',
      'graph-mode',
      'log-save',
    ]
    expect(wanted.filter((name) => !reached.has(name))).toEqual([])
    expect([...reached].filter((name) => name.endsWith('source and calls')).length).toBe(14)
  })

  test('shows the frame behind every card, and the calls that get it', async () => {
    const { page } = await open()
    const buttons = page.getByRole('button', { name: /source and calls$/ })
    const body = await contention()
    expect(await buttons.count()).toBe(14)
    for (let at = 0; at < 14; at++) {
      await buttons.nth(at).click()
      const text = await page.locator('#panel-body').textContent()
      expect(text).toContain(`curl -sS ${live.origin}/`)
      await page.keyboard.press('Escape')
    }
    await page.getByRole('button', { name: 'Slots by block: source and calls' }).click()
    const text = (await page.locator('#panel-body').textContent()) ?? ''
    expect(text).toContain('ContentionData.top_contended_slots')
    expect(text).toContain('npx --no -- sluice tail contention')
    expect(text).toContain(`"parallel_efficiency_pct": ${body.parallel_efficiency_pct}`)
    expect(await page.locator('#panel-body td').first().textContent()).toMatch(/^0x[0-9a-f]{40}$/)
    expect(await page.locator('#panel-body tr').count()).toBe(17)
  })

  test('filters by an address from the link, and has no controls in a kiosk', async () => {
    const [slot] = (await contention()).top_contended_slots
    const opened = await open({ path: `/live?kiosk#address=${slot!.address.slice(0, 12)}` })
    const rows = opened.page.locator('#keys-body table').first().locator('tbody tr:visible')
    await until(async () => (await rows.count()) === 1, 'one account')
    expect(await opened.page.locator('.controls:visible, button:visible').count()).toBe(0)
  })

  test('reads the operator’s view from /metrics, but not where the page is for customers', async () => {
    const opened = await open()
    await shows(opened, '#endpoints-body', 'metrics')
    await shows(opened, '#endpoints-process', 'event loop lag')
    const customers = await openLive({ section: { page: 'stream' } }, 20)
    const other = await openTab(browser, customers.origin)
    await other.reaches('live', 'quiet')
    await until(() => other.requests.some((url) => url.includes('/v1/status')), 'a request')
    expect(await other.page.locator('#endpoints').isVisible()).toBe(false)
    expect(other.requests.filter((url) => url.endsWith('/metrics'))).toEqual([])
    expect(await other.close()).toEqual([])
    await customers.close()
  })

  test('loads three files and nothing from elsewhere, and stays under 400 elements', async () => {
    const opened = await open()
    const files = opened.requests.filter((url) => /\/live/.test(url))
    expect(files.length).toBe(3)
    const elements = () => opened.page.evaluate('document.querySelectorAll("*").length')
    const before = await elements()
    expect(before).toBeLessThan(400)
    live.chain.add(100)
    live.chain.compete()
    await shows(opened, '#block-number', count(live.chain.newest))
    await shows(opened, '#log-lines', 'rejected')
    expect(await elements()).toBe(before)
  })
})
