// Interface of a started component towards the topology.

export interface EndpointAddress {
  readonly host: string
  readonly port: number
  readonly tls: boolean
}

export interface Running {
  /** Address of the listener; null for components without one. */
  readonly address: EndpointAddress | null
  /** Stops accepting, drains within its own bound, then closes. Idempotent, never throws. */
  stop(): Promise<void>
}
