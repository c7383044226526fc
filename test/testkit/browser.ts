// Opens pages in the Chromium of the machine and records what a strict page must not do.
// Tests that need it are skipped without it; `noBrowser` is the reason, for their names.
import { existsSync } from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { hangMs, until } from './until.ts'

const candidates = [
  process.env.SLUICE_TEST_CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]
const path = candidates.find((file) => file !== undefined && existsSync(file))
/** A page on a busy machine may take this long. */
export const pageDeadlineMs = hangMs

/** As `until`, for what a page shows. */
export const untilShown = (holds: () => boolean | Promise<boolean>, what: string) =>
  until(holds, what, pageDeadlineMs)

/** Why tests in a browser are skipped, or null. */
export const noBrowser =
  path === undefined ? 'no Chromium here: apt-get install chromium, or SLUICE_TEST_CHROMIUM' : null

/** For the names of those tests. */
export const skipped = noBrowser === null ? '' : ` (${noBrowser})`

/**
 * Each window has hidden pages for suggestions under its address bar, which take three times the
 * processor time of a small page, and a spare process. Playwright's list, which this one replaces,
 * is otherwise about what loopback does not see.
 */
const disabledFeatures = [
  ...['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'WebUIOmniboxFullPopup'],
  'SpareRendererForSitePerProcess',
  ...['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades'],
  ...['MediaRouter', 'PaintHolding', 'ThirdPartyStoragePartitioning', 'OptimizationHints'],
  ...['AimEnabled', 'PreconnectToSearch', 'NetworkTimeServiceQuerying'],
]

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: path!,
    timeout: pageDeadlineMs,
    // Chromium refuses its sandbox to root.
    args: [
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      `--disable-features=${disabledFeatures}`,
    ],
  })
}

export interface WatchedPage {
  readonly page: Page
  /** Violations of the policy, errors of the console and of scripts, requests to other origins. */
  readonly faults: string[]
}

export async function openPage(
  browser: Browser,
  origin: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext(options)
  context.setDefaultTimeout(pageDeadlineMs)
  const page = await context.newPage()
  const faults: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(`console: ${message.text()}`)
  })
  page.on('pageerror', (error) => void faults.push(`script: ${error.message}`))
  page.on('request', (request) => {
    const url = request.url()
    if (!url.startsWith(origin) && !/^(data|blob):/.test(url)) faults.push(`request: ${url}`)
  })
  return { page, faults }
}
