// Asks for confirmation before an irreversible change.
// Only on a terminal: a script is never blocked by a prompt, and --yes skips it.
import { createInterface } from 'node:readline'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { type Call, hasSwitch } from './verb.ts'

/** Accepts when there is no terminal, when --yes was given, or when the answer is yes. */
export async function confirm(call: Call, question: string): Promise<Outcome<null>> {
  if (hasSwitch(call, 'yes') || !process.stdin.isTTY || !process.stderr.isTTY) return accept(null)
  const answer = await readAnswer(`${question} [y/N] `)
  if (/^y(es)?$/i.test(answer.trim())) return accept(null)
  return refuse('rejected', 'not-confirmed', 'nothing was changed')
}

/** Ctrl-C and Ctrl-D at the prompt close it without an answer: that is a no. */
function readAnswer(prompt: string): Promise<string> {
  return new Promise((done) => {
    const terminal = createInterface({ input: process.stdin, output: process.stderr })
    terminal.once('close', () => done(''))
    terminal.question(prompt, (answer) => {
      done(answer)
      terminal.close()
    })
  })
}
