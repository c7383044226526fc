// Handles uncaught exceptions and unhandled rejections of the process.
import { isFault } from '../../base/errors.ts'
import { exitNow } from '../../base/exit.ts'
import { faultReport, type Log } from '../../base/telemetry/log.ts'

/**
 * A fault is logged and the server keeps running; anything else is a bug and exits the process.
 * Returns the function that removes the handler.
 */
export function surviveFaults(log: Log): () => void {
  const report = faultReport(log, 'fault was not handled')
  const onError = (error: unknown) => {
    if (isFault(error)) return report(error)
    log.error('server exits after a bug', {
      reason: (error instanceof Error && error.stack) || String(error),
    })
    exitNow(1)
  }
  process.on('uncaughtException', onError)
  return () => process.off('uncaughtException', onError)
}
