// What serves the subscriptions of a connection: our own chain, or the nodes of an upstream set.
// Thread: any (types only). Asked by methods.ts; hub-subscriptions.ts and relay-subscriptions.ts
// are the two there are.
import type { RpcError } from '../jsonrpc/build.ts'
import type { Feed } from './feed.ts'
import type { Refused, Registry } from './registry.ts'
import type { Session } from './session.ts'
import type { Wanted } from './wanted.ts'

/** A feed the connection is now subscribed to, or why it is not. */
export type Asked = Feed | Refused | RpcError

export interface Engine {
  readonly registry: Registry
  /** No notification reaches the connection before the answer made from this has been sent. */
  subscribe(session: Session, wanted: Wanted): Asked | Promise<Asked>
  /** False when the connection has no such subscription. */
  unsubscribe(session: Session, id: number): boolean
  stop(): void
}
