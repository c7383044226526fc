// Counts the open calls of the health service per client address.
// It takes no token, so there is no plan that could bound them.
import { addressKey } from '../../base/cidr.ts'
import { InFlight } from '../../base/transport/connections.ts'

export class OpenCalls {
  readonly #byAddress: InFlight
  readonly #callsMax: number
  #open = 0

  constructor(limits: { readonly callsPerAddressMax: number; readonly callsMax: number }) {
    this.#byAddress = new InFlight(limits.callsPerAddressMax)
    this.#callsMax = limits.callsMax
  }

  /** False when the address, or all of them together, have as many open as they may. */
  enter(address: string): boolean {
    if (this.#open >= this.#callsMax || !this.#byAddress.enter(addressKey(address))) return false
    this.#open++
    return true
  }

  leave(address: string): void {
    this.#byAddress.leave(addressKey(address))
    this.#open--
  }
}
