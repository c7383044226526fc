// A JSON-RPC endpoint in a process of its own, for long tests of `sluice bench load`.
//   node slow-endpoint.mjs stall EVERY_MS STALL_MS   answers nothing while it stalls
//   node slow-endpoint.mjs limit PER_SECOND          works off one call after another
// Prints its port. `stall` sends each stall it made (start and end of the monotonic clock, ms) to
// the parent. A late timer changes neither: the limit follows from times, not from timers.
import { createServer } from 'node:http'

const [mode, first, second] = process.argv.slice(2)
const text = '{"jsonrpc":"2.0","result":1,"id":1}'
const nowMs = () => Number(process.hrtime.bigint()) / 1e6
const reply = (response) => response.writeHead(200, { 'content-length': text.length }).end(text)

const waiting = []
let answer = reply
if (mode === 'stall') {
  let isStalling = false
  answer = (response) => (isStalling ? waiting.push(response) : reply(response))
  const stall = () => {
    isStalling = true
    const startMs = nowMs()
    setTimeout(() => {
      isStalling = false
      process.send({ startMs, endMs: nowMs() })
      for (const response of waiting.splice(0)) reply(response)
    }, Number(second))
  }
  process.on('message', () => {
    setTimeout(stall, (Number(first) - Number(second)) / 2)
    setInterval(stall, Number(first)).unref()
  })
} else {
  const stepMs = 1000 / Number(first)
  let freeMs = 0
  answer = (response) => {
    freeMs = Math.max(freeMs, nowMs()) + stepMs
    waiting.push({ response, atMs: freeMs })
  }
  setInterval(() => {
    const now = nowMs()
    while (waiting.length > 0 && waiting[0].atMs <= now) reply(waiting.shift().response)
  }, 1)
}

const server = createServer((request, response) => {
  request.resume()
  request.on('end', () => answer(response))
})
server.listen(0, '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  process.send({ port })
})
process.on('disconnect', () => process.exit(0))
