import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { leftOver, runVariable } from '../../testkit/left-over.ts'

test('names the processes of a run whose parent is not the run itself, and of no other run', async () => {
  const env = { ...process.env, [runVariable]: 'this-run' }
  const shell = spawn('sh', ['-c', 'sleep 300 & echo $!'], { env, stdio: ['ignore', 'pipe', 2] })
  const [line] = (await once(shell.stdout!, 'data')) as [Buffer]
  const pid = Number(line)
  try {
    expect(leftOver('this-run')).toContainEqual({ pid, command: 'sleep 300' })
    expect(leftOver('this-run').map((found) => found.pid)).not.toContain(shell.pid)
    expect(leftOver('other-run')).toEqual([])
  } finally {
    process.kill(pid)
  }
})
