// Completes names of tables and columns, and keeps the last statements, of the page at /play.
// A classic script: server.ts puts it between chart.js and page.js into the one script of the page.

const COMPLETIONS_MAX = 8
const PAST = 'sluice-statements'
const PAST_MAX = 50
const PAST_CHARS = 10000
const editor = document.getElementById('sql')
const offers = document.getElementById('completions')
const past = document.getElementById('past')
/** Columns by table, of the list beside the form. */
const columnsOf = new Map(
  [...document.querySelectorAll('#tables details')].map((table) => [
    table.querySelector('summary').textContent,
    [...table.querySelectorAll('[data-column]:not([data-table])')].map((one) => one.textContent),
  ]),
)
let chosen = 0

editor.addEventListener('input', offer)
editor.addEventListener('blur', () => setTimeout(hideOffers, 200))
editor.addEventListener('keydown', (event) => {
  if (offers.hidden || event.ctrlKey || event.metaKey || event.altKey) return
  const count = offers.children.length
  if (event.key === 'Tab' && !event.shiftKey) take(offers.children[chosen].textContent)
  else if (event.key === 'ArrowDown') choose((chosen + 1) % count)
  else if (event.key === 'ArrowUp') choose((chosen + count - 1) % count)
  else if (event.key === 'Escape') hideOffers()
  else return
  event.preventDefault()
  // Escape cancels a query only when nothing is offered.
  event.stopPropagation()
})
offers.addEventListener('click', ({ target }) => {
  if (target !== offers) take(target.textContent)
})
past.addEventListener('change', () => {
  if (past.value === 'clear') localStorage.removeItem(PAST)
  else if (past.value !== '') useStatement(pastStatements()[Number(past.value)])
  listPast()
  editor.focus()
})
listPast()

/** The name that is being typed, when the cursor is at its end. */
function wordAtCursor() {
  const { value, selectionStart, selectionEnd } = editor
  if (selectionStart !== selectionEnd || /\w/.test(value[selectionEnd] ?? '')) return ''
  return /[A-Za-z_]\w*$/.exec(value.slice(0, selectionEnd))?.[0] ?? ''
}

function offer() {
  const word = wordAtCursor()
  const names = word.length < 2 ? [] : namesFor(word)
  offers.replaceChildren(
    ...names.map((name) => {
      const item = Object.assign(document.createElement('button'), { type: 'button', tabIndex: -1 })
      item.textContent = name
      item.setAttribute('role', 'option')
      return item
    }),
  )
  offers.hidden = names.length === 0
  if (names.length > 0) choose(0)
}

/** Tables after FROM and JOIN; else columns of the tables in the statement, or of all, too. */
function namesFor(word) {
  const before = editor.value.slice(0, editor.selectionEnd - word.length)
  const tables = [...columnsOf.keys()]
  const words = new Set(editor.value.match(/\w+/g))
  const named = tables.filter((table) => words.has(table))
  const columns = (named.length > 0 ? named : tables).flatMap((table) => columnsOf.get(table))
  const names = /\b(from|join)\s+$/i.test(before) ? tables : [...columns, ...tables]
  const start = word.toLowerCase()
  const fitting = [...new Set(names)].filter((name) => name.startsWith(start) && name !== word)
  return fitting.slice(0, COMPLETIONS_MAX)
}

function choose(at) {
  chosen = at
  for (const [index, item] of [...offers.children].entries())
    item.setAttribute('aria-selected', String(index === at))
}

function take(name) {
  const end = editor.selectionEnd
  editor.setRangeText(name, end - wordAtCursor().length, end, 'end')
  useStatement(editor.value)
  hideOffers()
  editor.focus()
}

function hideOffers() {
  offers.hidden = true
}

/** Tells page.js, too, which shows the link. */
function useStatement(sql) {
  if (editor.value !== sql) editor.value = sql
  editor.dispatchEvent(new Event('change'))
}

function pastStatements() {
  try {
    return JSON.parse(localStorage.getItem(PAST) ?? '[]')
  } catch {
    return []
  }
}

/** Newest first. A statement with a secret in it is not kept, nor is a very long one. */
// biome-ignore lint/correctness/noUnusedVariables: page.js calls it, in the same script
function keepStatement(sql, password) {
  const isSecret = /slu_\w{38}/.test(sql) || (password !== '' && sql.includes(password))
  if (sql.trim() === '' || isSecret || sql.length > PAST_CHARS) return
  const kept = [sql, ...pastStatements().filter((one) => one !== sql)].slice(0, PAST_MAX)
  try {
    localStorage.setItem(PAST, JSON.stringify(kept))
  } catch {
    // A full or disabled storage: there is no history then.
  }
  listPast()
}

function listPast() {
  const options = pastStatements().map((sql, at) => {
    return new Option(sql.replace(/\s+/g, ' ').slice(0, 80), String(at))
  })
  const ends = options.length === 0 ? [] : [new Option('Clear history', 'clear')]
  past.replaceChildren(new Option('History…', ''), ...options, ...ends)
}
