// A free port of loopback for a server that does not take port 0, or the first of several.
import { createServer } from 'node:net'

/** Below 32768: above it other processes' outgoing connections take ports at any time. */
export async function freePort(count = 1): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    const ports = Array.from({ length: count }, (_, index) => port + index)
    if (!(await Promise.all(ports.map(isFree))).includes(false)) return port
  }
}

/** Flags of a server whose PubSub is where web3.js looks for it: one port above JSON-RPC. */
export async function adjacentPorts(): Promise<string[]> {
  const port = await freePort(2)
  return [`--rpc.port=${port}`, `--websocket.port=${port + 1}`]
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}
