// The examples of `sluice/client` in the documents run as printed, with this package alone, and
// the package's types describe what they import.
import { execFile, spawn } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { onlyMetrics, type Server, startServer } from '../testkit/server.ts'
import { SubscriptionStage } from '../testkit/subscription-stage.ts'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'

const run = promisify(execFile)
const pages = [
  'README.md',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
]
const examples = pages.flatMap((page) =>
  [...readFileSync(join(root, page), 'utf8').matchAll(/```[jt]s\n([\s\S]*?)```/g)]
    .map(([, block]) => ({ page, block: block! }))
    .filter(({ block }) => block.includes("from 'sluice/client")),
)

describe('the examples of sluice/client', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-examples-'))
  let server: Server
  let pubsub: SubscriptionStage

  beforeAll(async () => {
    mkdirSync(join(folder, 'node_modules'))
    symlinkSync(root, join(folder, 'node_modules', 'sluice'))
    server = await startServer({ flags: [...onlyMetrics, '--metrics.generator.tps=50'] })
    pubsub = new SubscriptionStage()
    await pubsub.open()
  })
  afterAll(async () => {
    await server.dispose()
    await pubsub.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  test('are in the README and in a page of docs', () => {
    expect(examples.map(({ page }) => page)).toContain('README.md')
    expect(examples.map(({ page }) => page)).toContain('docs/api/websocket.md')
    expect(examples.length).toBeGreaterThan(1)
  })

  for (const [index, { page, block }] of examples.entries()) {
    const name = `${index}-example`
    test(`run on this Node: ${page}, ${block.split('\n')[0]}`, async () => {
      const file = join(folder, `${name}.mjs`)
      const hosts = block
        .replaceAll('127.0.0.1:8443', new URL(server.url('metrics')).host)
        .replaceAll('127.0.0.1:8900', `127.0.0.1:${pubsub.port}`)
      writeFileSync(file, hosts)
      const env = { ...process.env, TOKEN: pubsub.bundle.issue().token }
      const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'pipe'], env })
      let stdout = ''
      let stderr = ''
      child.stdout.on('data', (chunk) => {
        stdout += chunk
      })
      child.stderr.on('data', (chunk) => {
        stderr += chunk
      })
      try {
        await until(() => {
          if (block.includes('PubsubClient')) pubsub.step()
          return stdout !== '' || child.exitCode !== null
        }, 'its first line')
        expect({ stderr, hasPrinted: stdout !== '' }).toEqual({ stderr: '', hasPrinted: true })
      } finally {
        child.kill()
      }
    })

    test(`have types: ${page}, ${block.split('\n')[0]}`, async () => {
      const file = join(folder, `${name}.mts`)
      writeFileSync(file, block)
      const flags = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2023']
      const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules', '@types')]
      const tsc = join(root, 'node_modules', '.bin', 'tsc')
      const problems = await run(tsc, [...flags, ...types, file], { cwd: folder }).then(
        () => '',
        (error: { stdout: string }) => error.stdout,
      )
      expect(problems).toBe('')
    })
  }
})
