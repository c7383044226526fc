// Collects what a gateway needs in order to take new callers, for a load balancer.
// Not ready until `begin`, and from `end` on: a server that starts or stops takes none.

export interface ReadyCheck {
  readonly name: string
  readonly ok: boolean
  /** Age of the newest data, where the check depends on it. */
  readonly age_ms?: number
}

export interface ReadyReport {
  readonly ready: boolean
  readonly checks: readonly ReadyCheck[]
}

const pollMs = 50

export class Readiness {
  #checks: (() => ReadyCheck)[] | null = null

  /** Every component has started; from now on the checks decide. */
  begin(checks: readonly (() => ReadyCheck)[]): void {
    this.#checks = [...checks]
  }

  /** The service stops. */
  end(): void {
    this.#checks = null
  }

  /** Resolves once every check passes; with false when that takes longer, or the service stops. */
  async whenReady(msMax: number): Promise<boolean> {
    for (let leftMs = msMax; leftMs > 0 && this.#checks !== null; leftMs -= pollMs) {
      if (this.report().ready) return true
      await new Promise((resolve) => setTimeout(resolve, pollMs))
    }
    return this.report().ready
  }

  report(): ReadyReport {
    const running = { name: 'components', ok: this.#checks !== null }
    const checks = [running, ...(this.#checks ?? []).map((check) => check())]
    return { ready: checks.every(({ ok }) => ok), checks }
  }
}
