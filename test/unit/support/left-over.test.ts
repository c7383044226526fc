import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { leftOver, runVariable } from '../../testkit/left-over.ts'
import { until } from '../../testkit/until.ts'

test('names the processes of a run whose parent is not the run itself, and of no other run', async () => {
  const env = { ...process.env, [runVariable]: 'this-run' }
  const shell = spawn('sh', ['-c', 'sleep 300 & echo $!'], { env, stdio: ['ignore', 'pipe', 2] })
  const [line] = (await once(shell.stdout!, 'data')) as [Buffer]
  const pid = Number(line)
  try {
    // Between fork and exec it still has the shell's command line.
    const runs = () => leftOver('this-run').some((found) => found.command === 'sleep 300')
    await until(runs, 'the shell’s child to run its command')
    expect(leftOver('this-run')).toContainEqual({ pid, command: 'sleep 300' })
    expect(leftOver('this-run').map((found) => found.pid)).not.toContain(shell.pid)
    expect(leftOver('other-run')).toEqual([])
  } finally {
    process.kill(pid)
  }
})
