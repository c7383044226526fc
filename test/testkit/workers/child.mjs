// A child process for tests.
import { serveFrames } from '../../../dist/src/base/threads/frames.js'

if (process.argv[2] === 'no-start') process.exit(9)
const service = serveFrames(
  {
    echo: (input) => input,
    pid: () => process.pid,
    words: () => process.argv.slice(2),
    fail: () => {
      throw new Error('refused by the child')
    },
    never: () => new Promise(() => {}),
    die: () => process.kill(process.pid, 'SIGKILL'),
    push: (data) => service.push('event', data),
  },
  () => (process.argv[2] === 'stubborn' ? new Promise(() => {}) : undefined),
)
