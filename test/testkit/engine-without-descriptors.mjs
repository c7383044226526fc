// Starts the query engine, uses up every descriptor of this process, and prints as one line of JSON
// what its queries got: with its processes killed, and after the descriptors came back. Run under
// `ulimit -n`; the argument is the index's folder.
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startDuckdbEngine } from '../../dist/src/indexer/duckdb/query-pool.js'
import { ResultSocket } from '../../dist/src/indexer/queries/service.js'

const warnings = []
const log = {
  debug() {},
  info() {},
  warn: (message, fields) => warnings.push(`${message}: ${fields?.reason}`),
  error: (message) => warnings.push(message),
  area: () => log,
}
const limits = {
  timeMs: 8_000,
  rows: 100,
  resultBytes: 1e6,
  memoryBytes: 512_000_000,
  overflow: 'throw',
}

async function ask(engine) {
  const { ticket } = results.expect(() => {})
  const query = {
    id: 'q',
    subscription: 'sub_a',
    statement: { texts: ['SELECT 1'], values: [] },
    format: 'CSV',
    limits,
    output: { quotes64: true },
  }
  const { error } = await engine.run(query, ticket).ended
  results.forget(ticket)
  return error?.code ?? 0
}

async function until(holds) {
  const endMs = performance.now() + 120_000
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error('waited too long')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Uses /proc while there are descriptors left to read it with. */
function queryProcesses() {
  return readdirSync('/proc').filter((pid) => {
    try {
      const [, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      return Number(parent) === process.pid && command.includes('index-query')
    } catch {
      return false
    }
  })
}

const results = await ResultSocket.open(join(process.argv[2], 'results.sock'))
const engine = await startDuckdbEngine(process.argv[2], { log, results: results.address })
// The first query makes the pool start its second process.
await ask(engine)
await until(() => queryProcesses().length === 2)
const taken = []
/** Uses every descriptor, also those that a dead process gives back. */
function refill() {
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'))
  } catch {
    // Every descriptor is in use.
  }
}
let without = null
let timer = null
// On a loaded machine a new process may get the descriptors of a dead one before the refill does:
// then it is killed as well, and the next query is the one that counts.
await until(async () => {
  clearInterval(timer)
  for (const file of taken.splice(-16)) closeSync(file)
  const pids = queryProcesses()
  refill()
  timer = setInterval(refill, 1)
  for (const pid of pids) process.kill(Number(pid), 'SIGKILL')
  await until(() => warnings.some((line) => line.includes('EMFILE')))
  without = await ask(engine)
  return without === 301
})
clearInterval(timer)
for (const file of taken) closeSync(file)
let after = null
await until(async () => {
  after = await ask(engine)
  return after === 0
})
process.stdout.write(`${JSON.stringify({ without, after, warnings })}\n`)
await engine.stop()
await results.stop()
