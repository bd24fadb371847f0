import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

// Red before: types of http did, so `skipLibCheck: false` failed with TypeScript 5.4 to 5.6.
test('no published type needs a compiler that knows generic typed arrays', () => {
  const generic = /Uint8Array<|Buffer<ArrayBuffer/
  const packages = join(root, 'packages')
  const paths = readdirSync(packages).flatMap((name) =>
    readdirSync(join(packages, name, 'dist'), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.d.ts') && !/\.test\.|fixtures/.test(path))
      .map((path) => join(packages, name, 'dist', path)),
  )
  expect(paths.length).toBeGreaterThan(100)
  const code = (path: string) => readFileSync(path, 'utf8').replace(/\/\*[\s\S]*?\*\//g, '')
  expect(paths.filter((path) => generic.test(code(path)))).toEqual([])
})

/** What a built file and the files that it imports by relative paths need of other packages. */
function neededBy(file: string): readonly string[] {
  const [, ending = ''] = /(\.d\.ts|\.js)$/.exec(file) ?? []
  const seen = new Set<string>()
  const needed = new Set<string>()
  const open = [join(root, 'packages', file)]
  for (const path of open) {
    if (seen.has(path)) continue
    seen.add(path)
    for (const [, from = ''] of readFileSync(path, 'utf8').matchAll(/ from '([^']+)'/g)) {
      if (from.startsWith('.')) open.push(join(dirname(path), from.replace(/\.ts$|\.js$/, ending)))
      else if (!from.startsWith('node:')) needed.add(from)
    }
  }
  return [...needed]
}

// Red before: a project with Kysely and without the types of pg failed with TS2307 under `skipLibCheck: false`.
// A function of Lambda has no client of Kafka, and needs none of the AWS SDK.
test.each([
  'postgres/dist/index.d.ts',
  'lambda/dist/index.d.ts',
  'lambda/dist/index.js',
  'kafka/dist/delivery.d.ts',
  'kafka/dist/delivery.js',
  'sqs/dist/delivery.d.ts',
  'sqs/dist/delivery.js',
])('%s needs no client', (file) => {
  const needed = neededBy(file)
  expect(needed).not.toEqual([])
  expect(needed.filter((name) => !name.startsWith('@onceward/'))).toEqual([])
})
