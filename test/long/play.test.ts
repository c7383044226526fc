// The indexer's page at /play in a real browser, against the built server of a default start.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { DATABASE, visibleTables } from '../../src/indexer/catalogue.ts'
import { launchBrowser, noBrowser, openPage, type WatchedPage } from '../testkit/browser.ts'
import { type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

const recorder = fileURLToPath(new URL('../testkit/record-canvas.js', import.meta.url))

interface Drawn {
  readonly texts: string[]
  readonly moves: number
  readonly lines: number
}

describe.skipIf(noBrowser !== null)(`/play in Chromium (${noBrowser ?? 'present'})`, () => {
  let server: Server
  let browser: Browser
  let open: WatchedPage

  beforeAll(async () => {
    server = await startServer({ isWhole: true })
    browser = await launchBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    await server?.dispose()
  })
  afterEach(async () => {
    expect(open.faults).toEqual([])
    await open.page.context().close()
  })

  /** The page with its credentials typed in; what it draws is recorded. */
  async function start(fragment = '', width = 1400): Promise<Page> {
    open = await openPage(browser, server.url('indexer'), { viewport: { width, height: 900 } })
    await open.page.addInitScript({ path: recorder })
    await open.page.goto(`${server.url('indexer')}/play${fragment}`)
    await open.page.fill('#user', server.indexer.user)
    await open.page.fill('#password', server.indexer.password)
    await open.page.fill('#token', server.token)
    return open.page
  }

  async function run(page: Page, sql?: string): Promise<void> {
    if (sql !== undefined) await page.fill('#sql', sql)
    await page.click('#run')
    const ended = / rows in |failed after|characters in/
    await page.locator('#status').filter({ hasText: ended }).waitFor()
    expect(await page.isVisible('#error')).toBe(false)
  }

  test('divides the axes by round numbers and writes block numbers in full', async () => {
    const page = await start()
    await run(page, numbers('4490000000 + n', 'n * 0.7481 + 0.3', 240))
    const { texts } = await drawnOf(page)
    expect(texts).toContain('4490000000')
    expect(texts).toContain('4490000100')
    for (const y of ['0', '50', '100', '150', '200']) expect(texts).toContain(y)
    expect(texts.filter((text) => /e[+-]|\.\d{3}/.test(text))).toEqual([])
  })

  test('draws a constant between round ticks', async () => {
    const page = await start()
    await run(page, numbers('n', '800.0000000001', 10))
    const { texts } = await drawnOf(page)
    expect(texts.slice(0, 3)).toEqual(['799', '799.5', '800'])
  })

  test('leaves a gap where a value is NULL', async () => {
    const page = await start()
    await run(page, numbers('n', 'if(n IN (10, 20, 21), NULL, 90 + n % 7)', 60))
    const { moves, lines, texts } = await drawnOf(page)
    // Three stretches: 0 to 9, 11 to 19, 22 to 59; the first point of each is moved to.
    expect([moves, lines]).toEqual([3, 57 - 3])
    // NULL taken for 0 would stretch the axis.
    expect(texts.slice(0, 4)).toEqual(['90', '92', '94', '96'])
    await page.hover('#chart', { position: { x: 700, y: 100 } })
    expect(await page.textContent('#readout')).toMatch(/^\d+: y (none|9\d)$/)
  })

  test('shows no efficiency for an empty block', async () => {
    const page = await start()
    await page.selectOption('#samples', 'Parallel efficiency')
    const sample = await page.inputValue('#sql')
    const blocks = `(SELECT 7 AS block_number, 0 AS total_txn_count, 0.0 AS parallel_efficiency_pct
      UNION ALL SELECT 8, 5, 98.5)`
    await run(page, sample.replace('FROM contention', `FROM ${blocks}`))
    const cells = await page.locator('tbody td').allTextContents()
    expect(cells).toEqual(['8', '98.5', '7', 'NULL'])
  })

  test('runs every sample', async () => {
    const page = await start()
    const samples = await page.locator('#samples option').allTextContents()
    expect(samples.length).toBeGreaterThan(5)
    for (const sample of samples.slice(1)) {
      await page.selectOption('#samples', sample)
      await run(page)
    }
  })

  test('keeps the statement in the fragment, credentials never', async () => {
    const sql = "SELECT 'a+b &#% 100' AS text, 2 AS n"
    const page = await start(`#sql=${encodeURIComponent(sql)}`)
    expect(await page.inputValue('#sql')).toBe(sql)
    // Opening a link runs nothing.
    expect(await page.textContent('#status')).toBe('')
    await run(page)
    expect(await page.textContent('tbody td')).toBe('a+b &#% 100')
    await run(page, 'SELECT 3 AS n')
    expect(page.url()).toBe(`${server.url('indexer')}/play#sql=SELECT%203%20AS%20n`)
    expect(await page.getAttribute('#link', 'href')).toBe('#sql=SELECT%203%20AS%20n')
    await page.goBack()
    await until(async () => (await page.inputValue('#sql')) === sql, 'the statement before')
    for (const secret of [server.token, server.indexer.password])
      expect(page.url()).not.toContain(secret)
  })

  test('keeps credentials over a reload only when asked', async () => {
    const page = await start()
    await page.reload()
    expect(await page.inputValue('#token')).toBe('')
    await page.fill('#token', server.token)
    await page.check('#keep')
    await page.reload()
    expect(await page.inputValue('#token')).toBe(server.token)
    await page.uncheck('#keep')
    await page.reload()
    expect(await page.inputValue('#token')).toBe('')
  })

  test('lists the tables; a click gives their newest rows or a column', async () => {
    const page = await start()
    const names = await page.locator('#tables details > summary').allTextContents()
    const shown = visibleTables.filter(({ database }) => database === DATABASE)
    expect(names).toEqual(shown.map(({ name }) => name))
    expect(names).toContain('fees_by_payer')
    await page.click('#tables summary:text-is("transactions")')
    await page.click('[data-table="transactions"]')
    expect(await page.inputValue('#sql')).toBe(
      'SELECT *\nFROM transactions\nORDER BY slot DESC\nLIMIT 100',
    )
    await run(page)
    await page.fill('#sql', 'SELECT ')
    await page.click('[data-column="compute_units"]')
    expect(await page.inputValue('#sql')).toBe('SELECT compute_units')
  })

  test('fills all credentials with one paste of the printed lines', async () => {
    open = await openPage(browser, server.url('indexer'))
    const { page } = open
    await page.goto(`${server.url('indexer')}/play`)
    const { user, password } = server.indexer
    const lines = `TOKEN=${server.token}\nINDEXER_USER=${user}\nINDEXER_PASSWORD=${password}\n`
    const values = () =>
      Promise.all(['#user', '#password', '#token'].map((id) => page.inputValue(id)))
    await paste(page, '#password', lines)
    expect(await values()).toEqual([user, password, server.token])
    await run(page, 'SELECT 1 AS n')
    for (const id of ['#user', '#password', '#token']) await page.fill(id, '')
    const json = { token: server.token, indexer: server.indexer }
    await paste(page, '#user', JSON.stringify(json))
    expect(await values()).toEqual([user, password, server.token])
    // One of them alone is pasted where the cursor is.
    await page.fill('#password', '')
    expect(await paste(page, '#password', password)).toBe(true)
  })

  test('completes tables after FROM, and columns of the tables in the statement', async () => {
    const page = await start()
    const offered = () => page.locator('#completions button').allTextContents()
    await page.fill('#sql', '')
    await page.locator('#sql').pressSequentially('SELECT 1 FROM fees')
    expect(await offered()).toEqual(['fees_by_payer'])
    await page.keyboard.press('Tab')
    expect(await page.inputValue('#sql')).toBe('SELECT 1 FROM fees_by_payer')
    expect(await page.isVisible('#completions')).toBe(false)
    await page.locator('#sql').pressSequentially(' WHERE fe')
    expect(await offered()).toEqual(['fee_payer', 'fees', 'fees_by_payer'])
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Tab')
    expect(await page.inputValue('#sql')).toBe('SELECT 1 FROM fees_by_payer WHERE fees')
    expect(await page.getAttribute('#link', 'href')).toContain('WHERE%20fees')
    // Without an offer Tab leaves the field, as everywhere.
    await page.keyboard.press('Escape')
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.id')).not.toBe('sql')
  })

  test('keeps the last statements in the browser, without secrets', async () => {
    const page = await start()
    for (let n = 0; n < 52; n++) await page.evaluate(`keepStatement('SELECT ${n} AS n', '')`)
    await run(page, 'SELECT 7\n  AS seven')
    const secret = `SELECT '${server.token}', '${server.indexer.password}'`
    await run(page, secret)
    await page.reload()
    const listed = await page.locator('#past option').allTextContents()
    expect(listed.slice(0, 3)).toEqual(['History…', 'SELECT 7 AS seven', 'SELECT 51 AS n'])
    expect([listed.length, listed.at(-1)]).toEqual([52, 'Clear history'])
    const kept = await page.evaluate<string>('JSON.stringify(localStorage)')
    for (const value of [server.token, server.indexer.password]) expect(kept).not.toContain(value)
    await page.selectOption('#past', '0')
    expect(await page.inputValue('#sql')).toBe('SELECT 7\n  AS seven')
    await page.selectOption('#past', 'clear')
    expect(await page.locator('#past option').count()).toBe(1)
  })

  test('draws times as lines, names as bars, and nothing where neither is', async () => {
    const page = await start()
    const kindOf = async (sql: string) => {
      await run(page, sql)
      const boxes = await page.locator('#legend input:checked').count()
      return [await page.inputValue('#kind'), await page.inputValue('#across'), boxes]
    }
    const of = (columns: string) => `SELECT ${columns} FROM numbers(9)`
    const times = of('number AS a, toDateTime(number * 60) AS t, number AS b')
    expect(await kindOf(times)).toEqual(['line', '1', 1])
    const names = of("concat('p', toString(number)) AS p, number AS a, number AS b")
    expect(await kindOf(names)).toEqual(['bar', '0', 1])
    expect(await kindOf(of('number % 3 AS a, number AS b'))).toEqual(['none', '-1', 1])
    const many = ['toDateTime(number) AS t', ...'abcdefgh'].map((one) =>
      one.length > 1 ? one : `number AS ${one}`,
    )
    expect(await kindOf(of(many.join()))).toEqual(['none', '0', 1])
    // What was chosen stays for the same columns.
    await page.selectOption('#kind', 'line')
    expect((await kindOf(`${of(many.join())} LIMIT 5`))[0]).toBe('line')
  })

  test('saves the rows as CSV and as JSON', async () => {
    const page = await start()
    await run(page, `SELECT toUInt64('18446744073709551615') AS n, 'say "hi", ü' AS t, NULL AS e`)
    const saved = async (id: string) => {
      const [download] = await Promise.all([page.waitForEvent('download'), page.click(id)])
      return [download.suggestedFilename(), readFileSync(await download.path(), 'utf8')]
    }
    const [csvName, csv] = await saved('#csv')
    expect(csvName).toMatch(/^sluice-[\d-]+\.csv$/)
    expect(csv).toBe('"n","t","e"\r\n18446744073709551615,"say ""hi"", ü",\r\n')
    const [jsonName, json] = await saved('#json')
    expect(jsonName).toMatch(/\.json$/)
    expect(JSON.parse(json!)).toEqual([{ n: '18446744073709551615', t: 'say "hi", ü', e: null }])
  })

  test('shows an error of the server and fits a phone', async () => {
    const page = await start('', 390)
    await page.fill('#sql', 'SELECT nothing FROM blocks')
    await page.click('#run')
    await page.waitForSelector('#error:not([hidden])')
    expect(await page.textContent('#error')).toContain('Code: 47')
    await run(page, 'SELECT slot, tx_count FROM blocks LIMIT 10')
    const wide = await page.evaluate<number>('document.documentElement.scrollWidth')
    expect(wide).toBeLessThanOrEqual(390)
    // The refused statement is a network error on the console, and nothing else is.
    expect(open.faults.splice(0)).toEqual([expect.stringContaining('400')])
  })
})

/** A statement of `count` rows: n from 0 on, as x and y. */
function numbers(x: string, y: string, count: number): string {
  return `SELECT ${x} AS x, ${y} AS y FROM (SELECT unnest(range(${count})) AS n)`
}

/** Whether the page left it to the browser. */
function paste(page: Page, at: string, text: string): Promise<boolean> {
  return page.evaluate<boolean>(`(() => {
    const clipboardData = new DataTransfer()
    clipboardData.setData('text', ${JSON.stringify(text)})
    const event = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true })
    return document.querySelector('${at}').dispatchEvent(event)
  })()`)
}

function drawnOf(page: Page): Promise<Drawn> {
  return page.evaluate<Drawn>('chartMade')
}
