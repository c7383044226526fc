// `sluice serve`: starts the service and runs until a signal. Thread: main.
// The topology is imported only here, so that no other verb pays for loading the products.
import { accept } from '../base/errors.ts'
import { hasSwitch, type Verb } from './verb.ts'

export const serveVerb: Verb = {
  words: ['serve'],
  summary: 'Start the service; the same as npm start.',
  takesConfig: true,
  flags: [{ name: 'fresh', doc: "Drop the embedded chain's state first; nothing else is lost." }],
  async run(call) {
    const fresh = hasSwitch(call, 'fresh')
    return accept({ json: { fresh }, text: '' })
  },
}
