// Observes shreds that arrive on a UDP port. Thread: observer.
// A slot is seen with its first shred, a transaction with the datagram that completes its batch.
// Answers the challenge of ShredStream, so that the port can be the destination of a subscription.
import { messageOf } from '../../base/errors.ts'
import { UdpSocket } from '../../base/transport/udp.ts'
import { decodeKey } from '../../chain/solana/base58.ts'
import { flawOf, flaws, slotOf } from '../../chain/solana/shred.ts'
import { isChallenge } from '../../chain/solana/shred-signature.ts'
import { sharedNowMs } from '../thread-clock.ts'
import {
  type Endpoint,
  type Observer,
  type ObserverEvents,
  type Subject,
  signatureKey,
} from './observer.ts'
import { ShredTransactions } from './shred-transactions.ts'

const bufferBytes = 32 * 1024 * 1024

export function observeShreds(
  { url }: Endpoint,
  { unit, accounts }: Subject,
  events: ObserverEvents,
): Observer {
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  const keys = accounts.map(decodeKey).filter((key) => key !== null)
  const transactions = unit === 'transaction' ? new ShredTransactions(keys) : null
  let socket: UdpSocket | null = null
  let isClosed = false
  let newest = -1
  UdpSocket.open({ host, port: Number(port), bufferBytes }).then(
    (opened) => {
      socket = opened
      if (isClosed) return opened.close()
      opened.onMessage((packet, from, fromPort) => {
        const atMs = sharedNowMs()
        if (isChallenge(packet)) return opened.sendTo(packet, from, fromPort)
        if (flawOf(packet, 0, packet.length, 0) !== flaws.none) return
        if (transactions === null) {
          const slot = slotOf(packet)
          if (slot > newest) events.saw(String(slot), slot, atMs)
          newest = Math.max(newest, slot)
          return
        }
        for (const { signature, slot } of transactions.add(packet))
          events.saw(signatureKey(signature), slot, atMs)
      })
      events.live()
    },
    (error: unknown) => {
      if (!isClosed) events.down(messageOf(error))
    },
  )
  return {
    close() {
      isClosed = true
      socket?.close()
    },
  }
}
