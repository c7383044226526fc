// A customer who calls three endpoints at an even pace and notes how long each answer takes.
// Thread: main of a process of its own.
import { Agent, request } from 'node:http'
import { WebSocket } from 'ws'
import { serveBench } from '../../../test/testkit/process.ts'
import { LatencyHistogram } from '../../lib/histogram.ts'

export interface Endpoints {
  readonly rpc: number
  readonly tpu: number
  readonly websocket: number
  readonly token: string
  readonly seconds: number
}

export interface Waited {
  readonly all: { readonly p50: number; readonly p99: number; readonly p999: number }
  readonly p99: Readonly<Record<string, number>>
  readonly answers: number
  readonly wrong: number
}

const paceMs = 5
const getSlot = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'

serveBench({ wait })

async function wait(doors: Endpoints): Promise<Waited> {
  const { token, seconds } = doors
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const at = (port: number) => ({ host: '127.0.0.1', port, agent })
  const headers = { 'x-token': token, 'content-type': 'application/json' }
  const socket = new WebSocket(`ws://127.0.0.1:${doors.websocket}`, { headers })
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  const calls = {
    rpc: () => status({ ...at(doors.rpc), method: 'POST', headers }, getSlot),
    tpu: () => status({ ...at(doors.tpu), path: '/ping' }),
    websocket: () =>
      new Promise<number>((resolve) => {
        socket.once('message', () => resolve(200))
        socket.send('{"jsonrpc":"2.0","id":1,"method":"ping"}')
      }),
  }
  const all = new LatencyHistogram()
  let wrong = 0
  const p99: Record<string, number> = {}
  const endMs = performance.now() + seconds * 1000
  const measured = Object.entries(calls).map(async ([name, call]) => {
    const histogram = new LatencyHistogram()
    while (performance.now() < endMs) {
      const beganMs = performance.now()
      if ((await call()) !== 200) wrong++
      histogram.recordNs((performance.now() - beganMs) * 1e6)
      await new Promise((resolve) => setTimeout(resolve, paceMs))
    }
    p99[name] = histogram.summary().p99
    all.merge(histogram)
  })
  await Promise.all(measured)
  socket.terminate()
  agent.destroy()
  return { all: all.summary(), p99, answers: all.total, wrong }
}

function status(options: object, body?: string): Promise<number> {
  return new Promise((resolve) => {
    const sent = request(options, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
    })
    sent.on('error', () => resolve(0))
    sent.end(body)
  })
}
