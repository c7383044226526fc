// The page at /play: sends a statement, shows its rows, keeps the statement in the URL fragment.
// A classic script: play.ts puts it behind chart.js into the one script of the page.

const ROWS_ASKED = 100000
const ROWS_SHOWN = 1000
const RAW_CHARS = 1000000
const KEPT = 'sluice-credentials'
const CREDENTIALS = ['user', 'password', 'token']
const SAMPLES = {
  'Transactions per block': 'SELECT slot, tx_count\nFROM blocks\nORDER BY slot DESC\nLIMIT 300',
  'Fees by payer':
    'SELECT fee_payer, sum(fees) AS lamports, sum(transactions) AS transactions\nFROM fees_by_payer\nWHERE day >= today() - 7\nGROUP BY fee_payer\nORDER BY lamports DESC\nLIMIT 20',
  'TPS by minute':
    'SELECT minute, tps_avg, tps_max\nFROM tps_by_minute\nORDER BY minute DESC\nLIMIT 300',
  'Contention by hour': 'SELECT *\nFROM contention_by_hour\nORDER BY hour DESC\nLIMIT 100',
  'Parallel efficiency':
    '-- A block without transactions has no efficiency: NULL, a gap in the line.\nSELECT\n  block_number,\n  if(total_txn_count = 0, NULL, parallel_efficiency_pct) AS efficiency_pct\nFROM contention\nORDER BY block_number DESC\nLIMIT 300',
  'Contended storage slots':
    'SELECT block_number, contended_slot_count, written_contended_slot_count, critical_path_txn_count\nFROM contention\nORDER BY block_number DESC\nLIMIT 300',
  'Contracts that block others':
    'SELECT address, count() AS blocks, sum(contended_slots) AS contended, avg(contention_score) AS score\nFROM contended_contracts\nGROUP BY address\nORDER BY contended DESC\nLIMIT 20',
  'Time to finalize':
    "SELECT block_number, age_ms\nFROM block_lifecycle\nWHERE to_stage = 'Finalized'\nORDER BY block_number DESC\nLIMIT 300",
  Tips: 'SELECT received_at, lamports, outcome\nFROM tips\nORDER BY received_at DESC\nLIMIT 200',
  'My queries': 'SELECT * FROM usage ORDER BY at DESC LIMIT 50',
}
const byId = (id) => document.getElementById(id)
const sqlField = byId('sql')
let running = null
let result = null

for (const name of Object.keys(SAMPLES)) byId('samples').append(new Option(name, name))
byId('samples').addEventListener('change', ({ target }) => {
  if (target.value !== '') setSql(SAMPLES[target.value])
  target.value = ''
  sqlField.focus()
})
byId('form').addEventListener('submit', (event) => {
  event.preventDefault()
  run()
})
document.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    event.preventDefault()
    run()
  } else if (event.key === 'Escape' && running !== null) running.abort()
})
// Closing the connection is what cancels a query.
byId('cancel').addEventListener('click', () => running?.abort())
byId('csv').addEventListener('click', () => save('csv', 'text/csv', csvOf(result)))
byId('json').addEventListener('click', () => save('json', 'application/json', jsonOf(result)))
byId('tables').addEventListener('click', ({ target }) => {
  const { table, column } = target.dataset
  if (table !== undefined) setSql(`SELECT *\nFROM ${table}\nORDER BY ${column} DESC\nLIMIT 100`)
  else if (column !== undefined) insert(column)
  else return
  sqlField.focus()
})
// On a narrow page the list would push the statement out of sight.
if (matchMedia('(max-width: 60rem)').matches) byId('tables').open = false
for (const kind of ['input', 'change']) sqlField.addEventListener(kind, showLink)
addEventListener('popstate', readFragment)
byId('keep').addEventListener('change', keepCredentials)
for (const id of CREDENTIALS) {
  byId(id).addEventListener('input', keepCredentials)
  byId(id).addEventListener('paste', pasteCredentials)
}
recallCredentials()
showLink()
readFragment()

function setSql(sql) {
  sqlField.value = sql
  showLink()
}

function insert(text) {
  sqlField.setRangeText(text, sqlField.selectionStart, sqlField.selectionEnd, 'end')
  showLink()
}

/** The statement alone: a link never has credentials, and opening one runs nothing. */
function fragment() {
  return `#sql=${encodeURIComponent(sqlField.value)}`
}

function showLink() {
  byId('link').href = fragment()
}

function readFragment() {
  const sql = new URLSearchParams(location.hash.slice(1).replaceAll('+', '%2B')).get('sql')
  if (sql !== null) setSql(sql)
}

/** In sessionStorage: over reloads of this tab, and only when asked. */
function keepCredentials() {
  if (!byId('keep').checked) return sessionStorage.removeItem(KEPT)
  sessionStorage.setItem(KEPT, JSON.stringify(CREDENTIALS.map((id) => byId(id).value)))
}

/** The lines that were printed with a subscription, or JSON of it: all three at once. */
function pasteCredentials(event) {
  const text = event.clipboardData.getData('text')
  const found = {
    user: /\bsub_[2-9a-z]{8}\b/.exec(text),
    password: /\b[0-9A-Za-z]{32}\b/.exec(text),
    token: /\bslu_[0-9A-Za-z]{38}\b/.exec(text),
  }
  const parts = Object.entries(found).filter(([, match]) => match !== null)
  if (parts.length < 2) return
  event.preventDefault()
  for (const [id, [value]] of parts) byId(id).value = value
  keepCredentials()
}

function recallCredentials() {
  const kept = sessionStorage.getItem(KEPT)
  if (kept === null) return
  byId('keep').checked = true
  for (const [at, value] of JSON.parse(kept).entries()) byId(CREDENTIALS[at]).value = value
}

async function run() {
  if (running !== null) return
  running = new AbortController()
  byId('run').disabled = true
  byId('cancel').disabled = false
  clear()
  keepStatement(sqlField.value, byId('password').value.trim())
  status('running')
  // An entry of its own, so that Back brings the statement before.
  if (location.hash !== fragment()) history.pushState(null, '', fragment())
  const began = performance.now()
  const seconds = () => `${((performance.now() - began) / 1000).toFixed(2)} s`
  const tick = setInterval(() => status(`running, ${seconds()}`), 100)
  try {
    const answer = await ask(sqlField.value, running.signal)
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    clearInterval(tick)
    show(answer, text, seconds())
  } catch (error) {
    if (running.signal.aborted) status(`cancelled after ${seconds()}`)
    else {
      status(`failed after ${seconds()}`)
      fail(error.message)
    }
  } finally {
    clearInterval(tick)
    running = null
    byId('run').disabled = false
    byId('cancel').disabled = true
  }
}

function ask(sql, signal) {
  const settings = new URLSearchParams({
    default_format: 'JSONCompact',
    max_result_rows: String(ROWS_ASKED),
    result_overflow_mode: 'break',
    // Numbers of the script are exact to 2^53 only.
    output_format_json_quote_64bit_integers: '1',
    enable_http_compression: '1',
  })
  return fetch(`/?${settings}`, {
    method: 'POST',
    body: sql,
    signal,
    // Without this a browser would ask for a password of its own on a 401.
    credentials: 'omit',
    cache: 'no-store',
    headers: {
      'X-ClickHouse-User': byId('user').value.trim(),
      'X-ClickHouse-Key': byId('password').value.trim(),
      'x-token': byId('token').value.trim(),
    },
  })
}

function show(answer, text, took) {
  const age = answer.headers.get('x-sluice-last-slot-age-ms')
  const fresh = age === null ? '' : `, newest slot ${(Number(age) / 1000).toFixed(1)} s old`
  byId('engine').textContent = `Read-only SQL on ${answer.headers.get('x-sluice-engine')}${fresh}`
  if (answer.headers.get('x-clickhouse-format') !== 'JSONCompact') {
    byId('raw').textContent = text.slice(0, RAW_CHARS)
    byId('raw').hidden = text === ''
    return status(`${text.length.toLocaleString('en')} characters in ${took}`)
  }
  try {
    result = JSON.parse(text)
  } catch {
    // An answer that failed on its way has the exception at its end.
    const message = text.split('__exception__')[1]?.split('\n').slice(2, -1).join('\n')
    throw new Error(message ?? 'the answer is not whole')
  }
  const { meta, data } = result
  const shown =
    data.length > ROWS_SHOWN ? `, the first ${ROWS_SHOWN.toLocaleString('en')} shown` : ''
  const cut = data.length >= ROWS_ASKED ? `, cut at ${ROWS_ASKED.toLocaleString('en')}` : ''
  status(`${data.length.toLocaleString('en')} rows in ${took}${cut}${shown}`)
  byId('downloads').hidden = meta.length === 0
  fillTable(meta, data)
  offerChart(result)
}

function clear() {
  result = null
  for (const id of ['error', 'chart-part', 'table-part', 'raw', 'downloads']) byId(id).hidden = true
}

function status(text) {
  byId('status').textContent = text
}

function fail(text) {
  byId('error').textContent = text.trim() || 'no answer'
  byId('error').hidden = false
}

function fillTable(meta, data) {
  const titles = meta.map((column) => {
    const cell = document.createElement('th')
    const small = document.createElement('small')
    cell.textContent = column.name
    small.textContent = column.type
    if (isNumeric(column)) cell.className = 'number'
    cell.append(small)
    return cell
  })
  const row = document.createElement('tr')
  row.append(...titles)
  document.querySelector('thead').replaceChildren(row)
  const rows = data.slice(0, ROWS_SHOWN).map((values) => rowOf(meta, values))
  document.querySelector('tbody').replaceChildren(...rows)
  byId('table-part').hidden = meta.length === 0
}

function rowOf(meta, values) {
  const row = document.createElement('tr')
  const cells = values.map((value, at) => {
    const cell = document.createElement('td')
    const text = value === null ? 'NULL' : textOf(value)
    cell.textContent = text
    cell.title = text
    if (isNumeric(meta[at])) cell.className = 'number'
    return cell
  })
  row.append(...cells)
  return row
}

function textOf(value) {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** RFC 4180: a line of names, texts in quotes, nothing for NULL. */
function csvOf({ meta, data }) {
  const quoted = (text) => `"${text.replaceAll('"', '""')}"`
  const field = (value, at) => {
    if (value === null) return ''
    return isNumeric(meta[at]) ? String(value) : quoted(textOf(value))
  }
  const lines = [meta.map(({ name }) => quoted(name)), ...data.map((row) => row.map(field))]
  return lines.map((line) => `${line.join(',')}\r\n`).join('')
}

/** A list of objects, one a line; 64-bit integers are texts, as in the format JSON. */
function jsonOf({ meta, data }) {
  const objects = data.map((row) =>
    JSON.stringify(Object.fromEntries(row.map((value, at) => [meta[at].name, value]))),
  )
  return `[\n${objects.join(',\n')}\n]\n`
}

/** Every row that was read, not only those in the table. */
function save(extension, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const time = new Date().toISOString().slice(0, 19).replace(/[:T]/g, '-')
  const anchor = Object.assign(document.createElement('a'), {
    href: url,
    download: `sluice-${time}.${extension}`,
  })
  anchor.click()
  setTimeout(() => URL.revokeObjectURL(url), 60000)
}
