// What every started part gives back to the topology. Thread: main.

export interface DoorAddress {
  readonly host: string
  readonly port: number
  readonly tls: boolean
}

export interface Running {
  /** Where the door stands; null for parts without one. */
  readonly address: DoorAddress | null
  /** Stops accepting, drains within its own bound, then closes. Idempotent, never throws. */
  stop(): Promise<void>
}
