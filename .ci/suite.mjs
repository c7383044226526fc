// Runs a test suite: `suite.mjs SUMMARY SECONDS [vitest's arguments]`. Adds one line of JSON to the
// file SUMMARY: tests passed, tests failed, and a sentence for each failure. No test runs twice.
import { spawnSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'

const vitest = 'node_modules/vitest/vitest.mjs'

const [, , summary, seconds, ...words] = process.argv
const folder = mkdtempSync(join(tmpdir(), 'sluice-suite-'))
const { code, passed, failed, failures } = run(Number(seconds), words)
rmSync(folder, { recursive: true, force: true })
const lines = failures.map((text) => `failed: ${text}`)
// A suite that was stopped, or failed outside of its tests, has failed.
const counted = { passed, failed: code === 0 ? failed : Math.max(failed, 1), failures: lines }
appendFileSync(summary, `${JSON.stringify(counted)}\n`)
process.exitCode = code === 0 ? 0 : 1

function run(secondsMax, args) {
  const path = join(folder, 'report.json')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${path}`]
  // `timeout` ends the whole process group, the test workers and their servers with it.
  const command = [
    '--kill-after=20',
    secondsMax,
    process.execPath,
    vitest,
    'run',
    ...args,
    ...reporters,
  ]
  const { status } = spawnSync('timeout', command.map(String), { stdio: 'inherit' })
  const report = readReport(path)
  if (report === null) {
    const why = status === 124 ? `ran over ${secondsMax} s` : 'ended without a report'
    return { code: 1, passed: 0, failed: 1, failures: [`the suite ${why}`] }
  }
  const bad = report.testResults.filter(({ status }) => status === 'failed')
  return {
    code: status ?? 1,
    passed: report.numPassedTests,
    failed: report.numFailedTests,
    failures: bad.flatMap(failuresOf),
  }
}

function readReport(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return null
  }
}

function failuresOf({ name, message, assertionResults }) {
  const file = relative(process.cwd(), name)
  const firstLine = (text) => text.split('\n')[0]
  const tests = assertionResults.filter(({ status }) => status === 'failed')
  // A file that fails before its first test has a message of its own.
  if (tests.length === 0) return [`${file}: ${firstLine(message)}`]
  return tests.map(
    ({ fullName, failureMessages }) => `${file}: ${fullName}: ${firstLine(failureMessages.join())}`,
  )
}
