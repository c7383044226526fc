// The bound of a connection's unsent bytes: nothing is missing from what a client is sent.
import { expect, it } from 'vitest'
import type { Socket } from '../../../../src/base/transport/websocket.ts'
import { PubsubConnection } from '../../../../src/products/websocket/server.ts'
import { budgetOn } from '../../../testkit/loose-session.ts'

const unsentBytesMax = 100_000

/** A client that reads nothing: the transport discards what comes beyond twice the bound. */
class StalledSocket {
  unsentBytes = 0
  dropped = 0
  readonly address = '127.0.0.1'
  readonly codes: number[] = []
  connection: PubsubConnection | null = null

  send(message: string | Uint8Array): string {
    if (this.codes.length > 0) return 'dropped'
    if (this.unsentBytes > 2 * unsentBytesMax) {
      this.dropped++
      return 'dropped'
    }
    this.unsentBytes += message.length
    return 'queued'
  }

  end(code: number): void {
    if (this.codes.push(code) === 1) this.connection?.close()
  }
}

/** `cursors`: subscriptions that can fall behind, once. */
function connect(cursors: boolean) {
  const socket = new StalledSocket()
  let canFall = cursors
  const engine = {
    canFallBehind: () => canFall,
    fallBehind() {
      const did = canFall
      canFall = false
      return did
    },
  }
  const budget = budgetOn()
  budget.enter('connections')
  const connection = new PubsubConnection({
    principal: { subscription: { upstream: null } } as never,
    budget,
    engine: engine as never,
    unsentBytesMax,
  })
  socket.connection = connection
  const gate = { lease: () => () => {} }
  connection.open(socket as unknown as Socket<PubsubConnection>, gate as never)
  return { socket, connection }
}

const bytes = (count: number) => Buffer.alloc(count)

it('is closed before the transport discards, after it has fallen behind in a burst', () => {
  const { socket, connection } = connect(true)
  connection.sendNow(bytes(1.9 * unsentBytesMax))
  connection.checkUnsent(0)
  expect(socket.codes).toEqual([])
  // What has no cursor stays live.
  for (let turns = 0; turns < 30; turns++) {
    connection.sendNow(bytes(unsentBytesMax / 20))
    connection.checkUnsent(unsentBytesMax / 20)
  }
  expect([socket.codes, socket.dropped]).toEqual([[1013], 0])
})

it.each(['notify', 'sendNow'] as const)('is closed with what it could not %s', (send) => {
  const { socket, connection } = connect(true)
  for (let count = 0; count < 5; count++) connection[send](bytes(unsentBytesMax))
  expect([socket.codes, socket.dropped]).toEqual([[1013], 1])
})
