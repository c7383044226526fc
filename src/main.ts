#!/usr/bin/env node
// The `sluice` command: words in, exit code out.
// `sluice serve` is `npm start`; every other verb works with the server running or stopped.
import { dispatch } from './operator/commands/dispatch.ts'

// A reader that closes early (`sluice audit show | head`) is no error of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(process.exitCode ?? 0)
  console.error(`sluice: the output cannot be written: ${error.message}`)
  process.exit(1)
})

process.exitCode = await dispatch(process.argv.slice(2))
