// Runs a test suite: `suite.mjs SUMMARY SECONDS [vitest's arguments]`. Adds one line of JSON to the
// file SUMMARY: tests passed, tests failed, and a sentence for each failure.
//
// Two cores run three test files at a time here. A few files that failed are therefore run once
// more, alone. What passes then counts as passed, and is still listed as a failure beside others.
import { spawnSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'

/** More than this is no accident of a busy machine. */
const filesAgainMax = 3
const secondsAgain = 300
const vitest = 'node_modules/vitest/vitest.mjs'

const [, , summary, seconds, ...words] = process.argv
const folder = mkdtempSync(join(tmpdir(), 'sluice-suite-'))
const first = run(Number(seconds), words)
let { code, passed, failed } = first
const failures = first.failures.map((text) => `failed: ${text}`)
if (code !== 0 && first.files.length > 0 && first.files.length <= filesAgainMax) {
  console.log(`\n== once more, alone: ${first.files.join(' ')}`)
  const again = run(secondsAgain, [...words, '--maxWorkers=1', ...first.files])
  failures.push(...again.failures.map((text) => `failed alone, too: ${text}`))
  if (again.code === 0) failures.push(`passed alone: ${first.files.join(' ')}`)
  code = again.code
  passed += failed - again.failed
  failed = again.failed
}
rmSync(folder, { recursive: true, force: true })
// A suite that was stopped, or failed outside of its tests, has failed.
if (code !== 0) failed = Math.max(failed, 1)
appendFileSync(summary, `${JSON.stringify({ passed, failed, failures })}\n`)
process.exitCode = code === 0 ? 0 : 1

function run(secondsMax, args) {
  const path = join(folder, 'report.json')
  rmSync(path, { force: true })
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
    return { code: 1, passed: 0, failed: 1, files: [], failures: [`the suite ${why}`] }
  }
  const bad = report.testResults.filter(({ status }) => status === 'failed')
  return {
    code: status ?? 1,
    passed: report.numPassedTests,
    failed: report.numFailedTests,
    files: bad.map(({ name }) => relative(process.cwd(), name)),
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
