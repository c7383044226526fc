// Keeps a fault of the world from ending the process where nobody else would catch it: in timers,
// message handlers and watches. Thread: any. A bug (assert.ts) still ends it, loudly.
import { isBug } from './assert.ts'

/** `action` with its faults handed to `report`, those of its promise too. */
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
