// Takes pictures of the live page in its states, both themes and two widths, from fixed data, and
// checks them by their pixels: text is drawn differently on every machine, colours are not.
// SLUICE_PICTURES=folder keeps them for a reader.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launchBrowser, noBrowser, skipped } from '../testkit/browser.ts'
import { HandClock } from '../testkit/fake-execution.ts'
import { type Live, openLive } from '../testkit/live-service.ts'
import { openTab, type Tab } from '../testkit/live-tab.ts'
import { near, type Rgb } from '../testkit/pixels.ts'
import { until } from '../testkit/until.ts'

const folder = process.env.SLUICE_PICTURES
const isSlice = process.env.SLUICE_LONG_SLICE === '1'
const refusals = /Failed to load resource|WebSocket connection|ERR_/
const papers: Readonly<Record<string, Rgb>> = {
  light: [0xf6, 0xf7, 0xf8],
  dark: [0x0f, 0x12, 0x15],
}
const gapColours: Readonly<Record<string, Rgb>> = {
  light: [0x8f, 0x12, 0x30],
  dark: [0xff, 0x6b, 0x6b],
}
const looks = (
  [
    { theme: 'light', width: 1440 },
    { theme: 'dark', width: 390 },
    { theme: 'dark', width: 1440 },
    { theme: 'light', width: 390 },
  ] as const
).slice(0, isSlice ? 2 : 4)

interface Scene {
  readonly state: string
  readonly blocks: number
  act?(live: Live, tab: Tab, clock: HandClock): Promise<void>
}

const scenes: Readonly<Record<string, Scene>> = {
  empty: { state: 'empty', blocks: 0 },
  live: { state: 'live', blocks: 200 },
  gap: {
    state: 'live',
    blocks: 160,
    act: async (live, tab) => {
      live.chain.lose(88_120, 88_190)
      live.chain.add(40)
      await until(async () => (await tab.text('#bar-gaps')) === '1', 'the gap')
    },
  },
  degraded: {
    state: 'degraded',
    blocks: 200,
    act: async (_, tab, clock) => {
      clock.advance(14_000)
      await tab.reaches('degraded')
    },
  },
  offline: { state: 'offline', blocks: 200, act: (live) => live.close() },
  paused: {
    state: 'paused',
    blocks: 200,
    act: async (live, tab) => {
      await tab.page.keyboard.press(' ')
      await tab.reaches('paused')
      const before = await drawnOnce(tab)
      live.chain.add(43)
      await tab.page.getByText('paused, 43 blocks behind').waitFor()
      // Not toBe: a difference of pictures is nothing to read.
      expect((await drawn(tab)) === before).toBe(true)
    },
  },
}

let browser: Browser
beforeAll(async () => {
  if (noBrowser === null) browser = await launchBrowser()
})
afterAll(() => browser?.close())

describe.skipIf(noBrowser !== null)(`a picture of the live page${skipped}`, () => {
  test.each(Object.keys(scenes))('shows it %s, light and dark, wide and narrow', async (name) => {
    const { state, blocks, act } = scenes[name]!
    for (const { theme, width } of looks) {
      const clock = new HandClock()
      const live = await openLive({ clock }, blocks)
      const context = { colorScheme: theme, viewport: { width, height: 900 } }
      const tab = await openTab(browser, live.origin, { context, expected: refusals })
      await tab.reaches(state === 'empty' ? 'empty' : 'live')
      await act?.(live, tab, clock)
      await tab.reaches(state, 'quiet')
      const shot = await picture(tab)
      if (folder !== undefined) keep(folder, `${name}-${theme}-${width}.png`, shot)
      expect(near(shot, papers[theme]!, 2)).toBeGreaterThan(1000)
      const chart = await tab.page.locator('#line-charts canvas').first().screenshot()
      expect(near(chart, gapColours[theme]!) > 60).toBe(name === 'gap')
      expect(await tab.close()).toEqual([])
      if (name !== 'offline') await live.close()
    }
  })
})

/** Without what goes on in every state: the time, the endpoints, the log. */
function picture({ page }: Tab): Promise<Buffer> {
  const moving = page.locator('#bar, #endpoints, #log')
  return page.screenshot({ fullPage: true, mask: [moving], maskColor: '#808080' })
}

/** Every chart and figure of the chain, to the pixel. */
function drawn({ page }: Tab): Promise<string> {
  return page.evaluate(`JSON.stringify([
    ...[...document.querySelectorAll('main canvas')].map((canvas) => canvas.toDataURL()),
    ...['#now', '#block', '#keys-body'].map((part) => document.querySelector(part).textContent),
  ])`)
}

/** The same, once everything that was known before the pause is drawn. */
async function drawnOnce(tab: Tab): Promise<string> {
  let last = await drawn(tab)
  const isStill = async () => {
    // Parts of the page are drawn once a second.
    await new Promise((resolve) => setTimeout(resolve, 1500))
    const next = await drawn(tab)
    const isSame = next === last
    last = next
    return isSame
  }
  await until(isStill, 'a page that stands still')
  return last
}

function keep(where: string, name: string, shot: Buffer): void {
  mkdirSync(where, { recursive: true })
  writeFileSync(join(where, name), shot)
}
