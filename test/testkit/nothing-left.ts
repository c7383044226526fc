// After each file of a process that files share: waits until no more timers and sockets are left
// than clients keep for a while. What a test leaves running takes its part of the processor from
// every file after it, and shows nowhere else.
import { afterAll } from 'vitest'
import { until } from './until.ts'

const leftMax = 8
const kinds = /^(Timeout|Immediate|ConnectWrap|T(CP|LS|TY)\w*|UDP\w*|HTTP\w*|ProcessWrap)$/

afterAll(async () => {
  let left: string[] = []
  const isQuiet = () => {
    left = process.getActiveResourcesInfo().filter((name) => kinds.test(name))
    return left.length <= leftMax
  }
  await until(isQuiet, 'the timers and sockets of this file to end').catch((error: Error) => {
    throw new Error(`${error.message}; left: ${[...new Set(left)].join(', ')} (${left.length})`)
  })
})
