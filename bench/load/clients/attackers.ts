// Strangers who ask the metrics service for whole blocks as fast as they can, each from a loopback
// address of its own. Thread: main of a process of its own.
import { Agent, request } from 'node:http'
import { serveBench } from '../../../test/testkit/process.ts'

export interface Attacked {
  readonly answered: number
  readonly refused: number
  readonly failed: number
  readonly bytes: number
}

const strangers = 8
const connectionsEach = 2
const call = { jsonrpc: '2.0', method: 'eth_getBlockByNumber', params: ['latest', true] }
const batch = JSON.stringify(Array.from({ length: 100 }, (_, id) => ({ ...call, id })))

let isOver = false
let running: Promise<void>[] = []
let counts = { answered: 0, refused: 0, failed: 0, bytes: 0 }

serveBench({ start, stop })

function start(port: number): void {
  isOver = false
  counts = { answered: 0, refused: 0, failed: 0, bytes: 0 }
  running = Array.from({ length: strangers * connectionsEach }, (_, index) =>
    attack(port, `127.0.0.${2 + (index % strangers)}`),
  )
}

async function stop(): Promise<Attacked> {
  isOver = true
  await Promise.all(running)
  return counts
}

async function attack(port: number, localAddress: string): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  while (!isOver) {
    const status = await post({ host: '127.0.0.1', port, localAddress, agent })
    if (status === 200) counts.answered++
    else if (status === 429) counts.refused++
    else counts.failed++
  }
  agent.destroy()
}

/** The status, 0 when the connection broke off. */
function post(options: object): Promise<number> {
  return new Promise((resolve) => {
    const sent = request({ ...options, method: 'POST', path: '/' }, (response) => {
      response.on('data', (chunk: Buffer) => {
        counts.bytes += chunk.length
      })
      response.on('end', () => resolve(response.statusCode ?? 0))
      response.on('error', () => resolve(0))
    })
    sent.on('error', () => resolve(0))
    sent.end(batch)
  })
}
