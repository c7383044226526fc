// Tests that the live page can be read by everyone: axe in both themes and at three widths, no
// sideways scrolling, and bands that colour-blind readers can tell apart.
import axe from 'axe-core'
import type { Browser } from 'playwright-core'
import { PNG } from 'pngjs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launchBrowser, noBrowser, skipped } from '../testkit/browser.ts'
import { type Live, openLive } from '../testkit/live-service.ts'
import { openTab, type Tab } from '../testkit/live-tab.ts'

const themes = ['light', 'dark'] as const
let browser: Browser
let live: Live

beforeAll(async () => {
  if (noBrowser !== null) return
  browser = await launchBrowser()
  live = await openLive()
})
afterAll(async () => {
  await browser?.close()
  await live?.close()
})

async function open(colorScheme: 'light' | 'dark', width: number): Promise<Tab> {
  const context = { colorScheme, viewport: { width, height: 800 } }
  const tab = await openTab(browser, live.origin, { context })
  await tab.reaches('live', 'quiet')
  return tab
}

describe.skipIf(noBrowser !== null)(`the live page${skipped}`, () => {
  test.each(themes)('has no axe finding and no sideways scroll in the %s theme', async (theme) => {
    for (const width of [360, 768, 1440]) {
      const tab = await open(theme, width)
      await tab.page.evaluate(axe.source)
      const found = await tab.page.evaluate(
        'axe.run().then(({ violations }) => violations.map((one) => one.id + " " + one.nodes.map((node) => node.target)))',
      )
      expect([width, found]).toEqual([width, []])
      const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'
      expect([width, await tab.page.evaluate(wide)]).toEqual([width, 0])
      await tab.page.getByRole('button', { name: 'Hot keys: source and calls' }).click()
      const dialog = await tab.page.evaluate(
        'axe.run("dialog").then(({ violations }) => violations.map((one) => one.id))',
      )
      expect([width, dialog]).toEqual([width, []])
      expect(await tab.close()).toEqual([])
    }
  })

  test.each(themes)(
    'has targets of 24 px and bands that differ for the colour-blind, %s',
    async (theme) => {
      const tab = await open(theme, 1440)
      const { page } = tab
      const small = await page.evaluate(`[...document.querySelectorAll('button, input')]
      .filter((one) => one.offsetParent !== null)
      .filter((one) => one.offsetWidth < 24 || one.offsetHeight < 24)
      .map((one) => one.id || one.textContent)`)
      expect(small).toEqual([])
      await page.evaluate(`for (const band of ['excellent', 'bottlenecks', 'sequential']) {
      const box = document.createElement('div')
      Object.assign(box.style, { position: 'fixed', zIndex: 9, top: '0', width: '20px', height: '20px',
        left: document.querySelectorAll('body > div').length * 20 + 'px', background: 'var(--' + band + ')' })
      document.body.append(box)
    }`)
      const apart: [string, number][] = []
      const session = await page.context().newCDPSession(page)
      for (const type of ['none', 'protanopia', 'deuteranopia', 'tritanopia'] as const) {
        await session.send('Emulation.setEmulatedVisionDeficiency', { type })
        const { data } = PNG.sync.read(
          await page.screenshot({ clip: { x: 0, y: 0, width: 60, height: 20 } }),
        )
        const at = (box: number) =>
          labOf([...data.subarray((10 * 60 + box * 20 + 10) * 4).subarray(0, 3)])
        const bands = [at(0), at(1), at(2)]
        for (const [one, other] of [
          [0, 1],
          [0, 2],
          [1, 2],
        ] as const)
          apart.push([type, distance(bands[one]!, bands[other]!)])
      }
      expect(apart.filter(([, lab]) => lab < 20)).toEqual([])
      expect(await tab.close()).toEqual([])
    },
  )
})

/** sRGB to CIELAB, D65. */
function labOf(rgb: readonly number[]): number[] {
  const linear = rgb.map((value) => {
    const part = value / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  const [r, g, b] = [linear[0]!, linear[1]!, linear[2]!]
  const xyz = [
    (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
    0.2126 * r + 0.7152 * g + 0.0722 * b,
    (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
  ].map((value) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116))
  const [x, y, z] = [xyz[0]!, xyz[1]!, xyz[2]!]
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)]
}

function distance(one: readonly number[], other: readonly number[]): number {
  return Math.hypot(...one.map((value, at) => value - other[at]!))
}
