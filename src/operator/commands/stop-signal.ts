// Ends a bench early on Ctrl-C or SIGTERM, so that it keeps what it measured.
// The first signal aborts; a second one ends the process at once.

export interface StopSignal {
  readonly signal: AbortSignal
  /** Removes the handlers. */
  release(): void
}

const exitOfSecond = 130

export function watchStopSignals(): StopSignal {
  const controller = new AbortController()
  const stop = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(exitOfSecond)
    controller.abort(`stopped by ${name}`)
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  return {
    signal: controller.signal,
    release() {
      process.off('SIGINT', stop)
      process.off('SIGTERM', stop)
    },
  }
}
