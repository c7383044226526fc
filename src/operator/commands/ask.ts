// Asks for confirmation before an irreversible change.
// Only on a terminal: a script is never blocked by a prompt; what cannot be undone needs its --yes.
import { createInterface } from 'node:readline'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { type Call, hasSwitch } from './verb.ts'

export interface Question {
  readonly text: string
  /** True where the change cannot be undone: without a terminal it is refused unless --yes. */
  readonly isFinal: boolean
}

/** Accepts when --yes was given or the answer is yes, or when nothing is lost without asking. */
export async function confirm(
  call: Call,
  { text: question, isFinal }: Question,
): Promise<Outcome<null>> {
  if (hasSwitch(call, 'yes')) return accept(null)
  const isTerminal = process.stdin.isTTY && process.stderr.isTTY
  if (!isTerminal && isFinal)
    return refuse(
      'rejected',
      'not-confirmed',
      'nothing was changed: this cannot be undone and there is no terminal to ask on; add --yes',
    )
  if (!isTerminal) return accept(null)
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
