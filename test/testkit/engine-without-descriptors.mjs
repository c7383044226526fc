// Starts the query engine, uses up every descriptor of this process, and prints as one line of JSON
// what its queries got: with its processes killed, and after the descriptors came back. Run under
// `ulimit -n`; the argument is the index's folder.
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { startDuckdbEngine } from '../../dist/src/products/indexer/duckdb/start-engine.js'

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
  const outcome = await engine.run({
    id: 'q',
    subscription: 'sub_a',
    statement: { texts: ['SELECT 1'], values: [] },
    format: 'CSV',
    limits,
    quotes64: true,
  }).started
  if (!outcome.ok) return outcome.error.code
  for await (const _ of outcome.result.chunks);
  return outcome.result.failed()?.code ?? 0
}

async function until(holds) {
  const endMs = performance.now() + 40_000
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

const engine = await startDuckdbEngine(process.argv[2], { log })
await until(() => queryProcesses().length === 2)
const pids = queryProcesses()
const taken = []
try {
  for (;;) taken.push(openSync('/dev/null', 'r'))
} catch {
  // Every descriptor is in use.
}
for (const pid of pids) process.kill(Number(pid), 'SIGKILL')
// Each dead process gives descriptors back: these are taken as well.
const refill = setInterval(() => {
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'))
  } catch {}
}, 1)
await until(() => warnings.some((line) => line.includes('EMFILE')))
const without = await ask(engine)
clearInterval(refill)
for (const file of taken) closeSync(file)
let after = null
await until(async () => {
  after = await ask(engine)
  return after === 0
})
process.stdout.write(`${JSON.stringify({ without, after, warnings })}\n`)
await engine.stop()
