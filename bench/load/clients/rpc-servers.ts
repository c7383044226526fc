// The servers of the rpc-door bench, one per process: our endpoint, the native server answering a
// constant, and node:http with our handler. Thread: a process of its own.
import type { AddressInfo } from 'node:net'
import { listen, uws } from '../../../src/transport/uws.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { answering, host, type Started, startDoor, startNodeHttp } from './rpc-parts.ts'

const answer = '{"jsonrpc":"2.0","result":"ok","id":1}\n'

serveBench({
  ours: () => startDoor(answering()),
  node: () => startNodeHttp(answering()),
  bare: startBare,
  cpuSeconds: () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  },
})

/** The least the native server can do with a POST: read the body, answer a constant. */
async function startBare(): Promise<Started> {
  const { createServer: probe } = await import('node:net')
  const port = await new Promise<number>((resolve) => {
    const taken = probe().listen(0, host, () => {
      const free = (taken.address() as AddressInfo).port
      taken.close(() => resolve(free))
    })
  })
  const app = uws().App()
  app.post('/', (response) => {
    response.onAborted(() => {})
    response.onData((_, isLast) => {
      if (isLast) response.end(answer)
    })
  })
  await listen(app, { host, port, exclusive: true })
  return { port, token: 'none' }
}
