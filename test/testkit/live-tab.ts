// A tab with the live page: its state, its sockets, and what went wrong in it.
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { openPage, pageDeadlineMs } from './browser.ts'

export interface Tab {
  readonly page: Page
  /** Addresses of the WebSockets that the tab opened. */
  readonly sockets: string[]
  readonly requests: string[]
  state(): Promise<string | null>
  /** Waits for one of these states, which are `data-state` of the body. */
  reaches(...names: string[]): Promise<void>
  text(selector: string): Promise<string>
  /** Closes it; returns errors, violations of the policy and requests to other origins. */
  close(): Promise<string[]>
}

export interface TabOptions {
  readonly context?: BrowserContextOptions
  /** Before the page is loaded: routes, clocks, scripts. */
  readonly before?: (page: Page) => Promise<unknown>
  readonly path?: string
  /** Requests that are refused on purpose put an error into the console. */
  readonly expected?: RegExp
}

export async function openTab(
  browser: Browser,
  origin: string,
  options: TabOptions = {},
): Promise<Tab> {
  const context = { viewport: { width: 1440, height: 900 }, ...options.context }
  const { page, faults } = await openPage(browser, origin, context)
  const sockets: string[] = []
  const requests: string[] = []
  page.on('websocket', (socket) => void sockets.push(socket.url()))
  page.on('request', (request) => void requests.push(request.url()))
  await page.addInitScript(`
    globalThis.violations = []
    document.addEventListener('securitypolicyviolation', (event) =>
      violations.push('policy: ' + event.violatedDirective + ' ' + event.blockedURI))`)
  await options.before?.(page)
  await page.goto(origin + (options.path ?? '/live'))
  return {
    page,
    sockets,
    requests,
    state: () => page.locator('body').getAttribute('data-state'),
    reaches: async (...names) => {
      const selector = names.map((name) => `body[data-state="${name}"]`).join(', ')
      await page.locator(selector).waitFor({ state: 'attached', timeout: pageDeadlineMs })
    },
    text: async (selector) => (await page.locator(selector).textContent()) ?? '',
    close: async () => {
      // Reason for the cast: the init script above made it.
      const violations = (await page.evaluate('globalThis.violations')) as string[]
      await page.context().close()
      const { expected } = options
      return [...faults, ...violations].filter((fault) => expected?.test(fault) !== true)
    },
  }
}
