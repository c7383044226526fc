// Keeps an external failure from ending the process where no caller would catch it: in timers,
// message handlers and file watches. A bug (assert.ts) still ends it, loudly.
import { isBug } from './assert.ts'

/** Wraps `action` so that its faults, also those of its promise, go to `report`. */
export function guarded<Given extends readonly unknown[]>(
  action: (...given: Given) => unknown,
  report: (fault: unknown) => void,
): (...given: Given) => void {
  const caught = (error: unknown) => {
    if (isBug(error)) throw error
    report(error)
  }
  return (...given) => {
    try {
      const done = action(...given)
      if (done instanceof Promise) done.catch(caught)
    } catch (error) {
      caught(error)
    }
  }
}
