import fc from 'fast-check'
import { expect, test } from 'vitest'
import { argumentsOf, loadRoutes } from '../../../../src/operator/api/routes.ts'

/** Flags of the command line that no request may set. */
const terminalFlags = ['data', 'config', 'output', 'yes', 'help', 'watch']

test('any input of any verb is arguments or a refusal, and sets no flag of the command line', async () => {
  const routes = [...(await loadRoutes()).values()]
  const keys = routes.flatMap(({ inputs }) => inputs.map(({ key }) => key))
  const key = fc.constantFrom(...keys, ...terminalFlags, '__proto__', 'constructor', '--')
  const text = fc.oneof(fc.string(), fc.constantFrom('--yes', '-h', '--data=/', '--', '', '1'))
  const value = fc.oneof(text, fc.array(text, { maxLength: 3 }), fc.jsonValue())
  const input = fc.dictionary(key, value, { maxKeys: 6 })
  fc.assert(
    fc.property(fc.constantFrom(...routes), input, (route, given) => {
      const parsed = argumentsOf(route, given)
      if (!parsed.ok) return parsed.refusal.kind === 'invalid'
      const { flags, configFlags } = parsed.value
      return configFlags.length === 0 && terminalFlags.every((name) => !flags.has(name))
    }),
    { numRuns: 3_000 },
  )
})

test('a list is a repeated flag, an empty one an empty flag, a number a text', async () => {
  const routes = await loadRoutes()
  const set = argumentsOf(routes.get('/v1/subscription/set')!, {
    subscription: 'acme',
    cidr: ['10.0.0.0/8', '192.168.0.0/16'],
    product: [],
    until: '',
  })
  expect(set).toMatchObject({ ok: true, value: { positionals: ['acme'] } })
  expect(set.ok && Object.fromEntries(set.value.flags)).toEqual({
    cidr: ['10.0.0.0/8', '192.168.0.0/16'],
    product: [''],
    until: [''],
  })
  const show = argumentsOf(routes.get('/v1/audit/show')!, { limit: 5 })
  expect(show.ok && show.value.flags.get('limit')).toEqual(['5'])
})
