// Configuration files of operators: refused with sentences, whatever they contain.
import { ok } from 'node:assert'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { configFields } from '../../../src/operator/config/config.ts'
import { leaves, loadConfig } from '../../../src/operator/config/load.ts'
import { type Target, text } from '../target.ts'

const path = join(mkdtempSync(join(tmpdir(), 'sluice-fuzz-')), 'sluice.yaml')

export const configFile: Target = {
  bytesMax: 2_048,
  words: [
    ...[...leaves(configFields)].map(({ key }) => key.replaceAll(/<\w+>/g, 'x').split('.').at(-1)!),
    ...[
      '\n  ',
      ': ',
      '- ',
      '{',
      '}',
      '[',
      ']',
      '&a ',
      '*a',
      '<<: *a',
      '!!binary ',
      '|\n',
      '"',
      '1e3',
    ],
    ...['__proto__: ', 'null', 'true', '10s', '1MiB', '0x1f', '.inf', '? ', '---\n', '%YAML 1.2\n'],
  ],
  seeds: () => [
    text('rpc:\n  port: 8899\nmetrics:\n  port: 0\n'),
    text('plans:\n  gold:\n    requestsPerSecond: 10\n  x: {}\n'),
    text('upstream:\n  solana:\n    main:\n      nodes:\n        - rpc: http://127.0.0.1:1\n'),
    text('{"grpc":{"port":1,"backlogBytesMax":"1MiB"}}'),
    text('a: &a {b: 1}\nc: *a\n'),
  ],
  async run(input) {
    writeFileSync(path, input)
    const result = await loadConfig({ file: path, env: {} })
    if (result.ok) return
    ok(result.problems.length > 0 && result.problems.every((one) => one.length > 5), 'problems')
  },
}
