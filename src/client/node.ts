// `sluice/client` on Node: the same clients with a WebSocket of their own, which can send
// the token.
// Thread: any; Node only. The `node` condition of the package's exports selects this file.
import { type ClientOptions, MetricsClient as PortableClient } from './client.ts'
import { NodeSocket } from './node-socket.ts'
import { PubsubClient as PortablePubsub, type PubsubOptions } from './pubsub.ts'

// biome-ignore lint/performance/noBarrelFile: the package has this one entry for its users.
export * from './client.ts'

export class MetricsClient extends PortableClient {
  constructor(options: ClientOptions) {
    const { token } = options
    const headers = token === undefined ? {} : { 'x-token': token }
    super({ ...options, open: options.open ?? ((url) => new NodeSocket(url, headers)) })
  }
}

export class PubsubClient extends PortablePubsub {
  constructor(options: PubsubOptions) {
    const { token } = options
    const headers = token === undefined ? {} : { 'x-token': token }
    super({ ...options, open: options.open ?? ((url) => new NodeSocket(url, headers)) })
  }
}
