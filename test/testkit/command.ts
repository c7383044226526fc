// Runs the compiled `sluice` command as its own process, with an environment of its own.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'
import { runVariable } from './left-over.ts'

export const commandPath = join(packageRoot(), 'dist', 'src', 'main.js')

export interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  /** The parsed stdout of commands run with --output json. */
  json(): Record<string, unknown>
}

/** Variables of the caller's shell never reach it, but for what a process needs to run. */
export function runCommand(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  return new Promise((done, fail) => {
    const child = spawn(process.execPath, [commandPath, ...words], {
      env: { PATH: process.env.PATH, [runVariable]: process.env[runVariable], ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let stdout = ''
    let stderr = ''
    child.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
    child.on('error', fail)
    child.on('close', (code) => {
      done({ code, stdout, stderr, json: () => JSON.parse(stdout) as Record<string, unknown> })
    })
  })
}
