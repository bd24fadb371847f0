import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it, test } from 'vitest'
import { CLIENTS } from '../versions/table.ts'
import { lint, packages } from './lint.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const packagesDirectory = join(root, 'packages')
const source = (name: string): string => join(packagesDirectory, name, 'src')

function filesIn(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)))
}

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

function onceward(name: string): string[] {
  const file = join(packagesDirectory, name, 'package.json')
  const manifest: Manifest = JSON.parse(readFileSync(file, 'utf8'))
  const all = { ...manifest.dependencies, ...manifest.peerDependencies }
  return Object.keys(all).filter((dependency) => dependency.startsWith('@onceward/'))
}

/** Programs: they import the packages they put together, and no package imports them. */
const APPLICATIONS = ['onceward', 'create-onceward']
/**
 * Lambda imports the message formats alone: they load no client. The module of NestJS loads the packages of the brokers and
 * of the relay that an application has.
 */
const SIBLINGS: Readonly<Record<string, readonly string[]>> = {
  lambda: ['@onceward/kafka', '@onceward/sqs'],
  nestjs: [
    ...['@onceward/amqp', '@onceward/kafka', '@onceward/nats', '@onceward/postgres'],
    ...['@onceward/redis-streams', '@onceward/sqs'],
  ],
}
const libraries = packages.filter((name) => !APPLICATIONS.includes(name))

/** Peers of which the nightly tests run only the installed version. */
const UNTESTED_PEERS: Readonly<Record<string, readonly string[]>> = {
  dynamodb: ['@aws-sdk/client-dynamodb'],
  // In the one version that is installed here: neither has had a second major one since.
  kafka: ['@confluentinc/kafka-javascript', '@platformatic/kafka'],
  // 3.0.0 is the first version of the package.
  nats: ['@nats-io/transport-node'],
  // @nestjs/common and @nestjs/schedule with @nestjs/core, the others in the one that is installed here.
  nestjs: [
    ...['@nestjs-cls/transactional', '@nestjs/common', '@nestjs/schedule', 'rxjs'],
    'typeorm-transactional',
  ],
  // In the version of @mikro-orm/postgresql.
  postgres: ['@mikro-orm/core'],
  'redis-streams': ['ioredis'],
  testing: [
    ...['@aws-sdk/client-sqs', '@nats-io/transport-node', 'amqplib', 'ioredis', 'kafkajs'],
    ...['testcontainers', 'vitest'],
  ],
}

describe('packages', () => {
  it.each(libraries)(
    '%s depends on no package of ours but the core, except lambda and nestjs',
    (name) => {
      const core = name === 'core' ? [] : ['@onceward/core']
      expect(onceward(name)).toEqual([...core, ...(SIBLINGS[name] ?? [])])
    },
  )

  it.each(packages)('%s depends on no program', (name) => {
    const file = join(packagesDirectory, name, 'package.json')
    const manifest: Manifest = JSON.parse(readFileSync(file, 'utf8'))
    const all = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })
    expect(all.filter((dependency) => APPLICATIONS.includes(dependency))).toEqual([])
  })

  it.each(packages)('%s imports by relative paths only what is its own', (name) => {
    const leaving = filesIn(source(name)).filter((file) => {
      const path = join(source(name), file)
      const imports = readFileSync(path, 'utf8').matchAll(/(?:from|import\()\s*'(\.[^']*)'/g)
      return [...imports].some(
        ([, to = '']) => !resolve(dirname(path), to).startsWith(`${source(name)}/`),
      )
    })
    expect(leaving).toEqual([])
  })

  it.each(packages)('%s says on npm what it is, whose and where', (name) => {
    const manifest = JSON.parse(readFileSync(join(packagesDirectory, name, 'package.json'), 'utf8'))
    const home = 'https://github.com/onceward/onceward'
    expect(manifest).toMatchObject({
      description: expect.any(String),
      author: 'The onceward authors',
      license: 'MIT',
      homepage: `${home}/tree/main/packages/${name}#readme`,
      bugs: `${home}/issues`,
      repository: { type: 'git', url: `git+${home}.git`, directory: `packages/${name}` },
      keywords: expect.arrayContaining(['onceward', 'exactly-once', 'idempotency']),
    })
    expect(manifest.keywords.length).toBeGreaterThan(4)
  })

  it.each(packages)('%s accepts the versions of clients that are tested, and no others', (name) => {
    const file = join(packagesDirectory, name, 'package.json')
    const { peerDependencies = {} }: Manifest = JSON.parse(readFileSync(file, 'utf8'))
    const ranges = CLIENTS.filter(({ usedWith }) => usedWith === name)
    for (const { name: client, range } of ranges) {
      if (client in peerDependencies) expect(peerDependencies[client], client).toBe(range)
    }
    const untested = Object.keys(peerDependencies).filter(
      (peer) => !ranges.some((each) => each.name === peer),
    )
    const known = UNTESTED_PEERS[name] ?? []
    expect(untested.filter((peer) => !peer.startsWith('@onceward/'))).toEqual(known)
  })

  it.each(packages)('%s names every public export in its index', (name) => {
    expect(readFileSync(join(source(name), 'index.ts'), 'utf8')).not.toMatch(/^export \*/m)
  })
})

interface Locked {
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

describe('the lock file', () => {
  it('holds the optional packages of every platform, without which npm ci refuses to start', () => {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
    const locked: Readonly<Record<string, Locked>> = lock.packages
    const missing = Object.entries(locked).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter(
        (name) => !(`node_modules/${name}` in locked || `${path}/node_modules/${name}` in locked),
      ),
    )
    expect(missing).toEqual([])
  })

  it.each(['.', 'mutation', 'bench/rivals'])('of %s names no registry', (directory) => {
    const lock = readFileSync(join(root, directory, 'package-lock.json'), 'utf8')
    expect(lock).not.toContain('"resolved": "http')
  })
})

/** The rooms of core, from the lowest floor to the highest, and those each may import. */
const LOWER = ['model', 'support', 'options', 'concurrency']
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  model: [],
  support: ['model'],
  options: ['model', 'support'],
  concurrency: ['model'],
  settlement: LOWER,
  seal: LOWER,
  lease: [...LOWER, 'settlement'],
  messages: LOWER,
  identity: [...LOWER, 'messages'],
  receive: [...LOWER, 'settlement', 'messages', 'identity'],
  handler: [...LOWER, 'settlement'],
  transaction: [...LOWER, 'settlement', 'handler'],
  run: [...LOWER, 'settlement', 'seal', 'receive', 'lease', 'handler', 'transaction'],
  background: [...LOWER, 'settlement', 'seal', 'receive', 'run'],
  guard: [
    ...LOWER,
    'settlement',
    'seal',
    'messages',
    'identity',
    'receive',
    'lease',
    'handler',
    'transaction',
    'run',
    'background',
  ],
  edge: [...LOWER, 'messages', 'handler', 'guard'],
  flow: ['model', 'support', 'concurrency'],
  adapter: ['model', 'support', 'concurrency', 'flow'],
  memory: ['model', 'support', 'concurrency'],
}

/** Rooms that were fuller when the rule came. Their numbers may only fall. */
const FULLER: Readonly<Record<string, number>> = { model: 17 }

const othersThan = (room: string): readonly string[] =>
  [...Object.keys(ROOMS), 'fixtures'].filter((other) => other !== room)

describe('the rooms of core', () => {
  it.each(Object.keys(ROOMS))('%s has at most 16 files', (room) => {
    const files = filesIn(join(source('core'), room)).filter(
      (file) => !/\.test(-d)?\.ts$/.test(file),
    )
    expect(files.length).toBeLessThanOrEqual(FULLER[room] ?? 16)
  })

  it('are the directories of its sources', () => {
    const directories = readdirSync(source('core'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name !== 'fixtures')
      .map(({ name }) => name)
    expect(directories.toSorted()).toEqual(Object.keys(ROOMS).toSorted())
  })

  // One start of the linter for all rooms.
  let diagnostics: readonly string[] = []
  beforeAll(() => {
    const files = Object.keys(ROOMS).flatMap((room): [string, string][] => [
      [`packages/core/src/${room}/client.ts`, `export { Pool } from 'pg'\n`],
      [`packages/core/src/${room}/node.ts`, `export { hash } from 'node:crypto'\n`],
      [`packages/core/src/${room}/through.ts`, `export { hash } from '../node.ts'\n`],
      ...othersThan(room).map((other): [string, string] => [
        `packages/core/src/${room}/from-${other}.ts`,
        `export { a } from '../${other}/a.ts'\n`,
      ]),
    ])
    diagnostics = lint('biome', Object.fromEntries(files)).split(/^(?=packages\/)/m)
  })

  /** Why the linter refuses the imports of a file; `''` when it does not. */
  const refusalOf = (file: string): string => {
    const start = `packages/core/src/${file}.ts:`
    const rule = ' lint/style/noRestrictedImports'
    return diagnostics.find((text) => text.startsWith(start) && text.includes(rule)) ?? ''
  }

  it.each(Object.entries(ROOMS))('%s imports %j and no other room', (room, allowed) => {
    const refused = othersThan(room).filter((other) =>
      refusalOf(`${room}/from-${other}`).includes(`${room}/ may import`),
    )
    expect(refused).toEqual(othersThan(room).filter((other) => !allowed.includes(other)))
  })

  it.each(Object.keys(ROOMS))('%s imports no client library, and Node through node.ts', (room) => {
    const files = ['client', 'node', 'through']
    const refused = files.filter((file) => refusalOf(`${room}/${file}`) !== '')
    expect(refused).toEqual(['client', 'node'])
    expect(refusalOf(`${room}/client`)).toContain(
      'core knows no broker, no store and no client library',
    )
  })
})

const BROKERS =
  /kafka|sqs|amqp|rabbit|redis-?streams|ioredis|\bx(add|ack|claim|autoclaim|readgroup)\b/i
/** What messages look like, whoever brings them. */
const MESSAGE_FORMATS = /^messages\//

/** Comments may name a broker as an example. */
const withoutComments = (text: string): string =>
  text.replaceAll(/^\s*\/\*[\s\S]*?\*\//gm, '').replaceAll(/^\s*\/\/.*$/gm, '')

test('core knows no broker: its code names none', () => {
  const files = filesIn(source('core')).filter(
    (file) => !/\.test(-d)?\.ts$|^fixtures/.test(file) && !MESSAGE_FORMATS.test(file),
  )
  const lines = files.flatMap((file) =>
    withoutComments(readFileSync(join(source('core'), file), 'utf8'))
      .split('\n')
      .filter((line) => BROKERS.test(line))
      .map((line) => `${file}: ${line.trim()}`),
  )
  expect(lines).toEqual([])
})

describe('lease stores are siblings', () => {
  const verbs = ['claim', 'complete', 'renew', 'fail', 'release', 'bury']
  const files = ['index.ts', 'options.ts', 'client.ts', 'lease-store.ts', 'errors.ts']
  const scripted = ['scripts.ts', 'keys.ts', 'doctor.ts']

  it.each([
    ['redis', [...files, ...scripted]],
    ['postgres', files],
  ])('%s has every file that a lease store has', (name, expected) => {
    expect(filesIn(source(name))).toEqual(expect.arrayContaining(expected))
  })

  it('redis has a script for each verb of the state machine', () => {
    const scripts = readdirSync(join(source('redis'), 'lua'))
    expect(scripts).toEqual(expect.arrayContaining(verbs.map((verb) => `${verb}.ts`)))
  })
})

const LEDGER = 'export async function commit(): Promise<void> {}\n'

// Each starts a linter, and only a change of its settings changes what it says.
describe('the rules go red', { tags: ['nightly'] }, () => {
  it('accepts a file that keeps them', () => {
    const good = `import { commit } from './ledger.ts'\n\nexport async function charge(): Promise<void> {\n  await commit()\n}\n`
    const files = { 'packages/core/src/ledger.ts': LEDGER, 'packages/core/src/a.ts': good }
    expect(lint('biome', files)).toBe('')
    expect(lint('oxlint', files)).toBe('')
  })

  it.each(['a.ts', 'a.test.ts'])('reports a forgotten await in %s', (name) => {
    const bad = `import { commit } from './ledger.ts'\n\nexport function charge(): void {\n  commit()\n}\n`
    const files = { 'packages/core/src/ledger.ts': LEDGER, [`packages/core/src/${name}`]: bad }
    expect(lint('oxlint', files)).toContain('no-floating-promises')
  })

  it('reports a forgotten await on a function of another package', () => {
    const bad = `import { commit } from '@onceward/core'\n\nexport function charge(): void {\n  commit()\n}\n`
    const core = { 'packages/core/src/index.ts': LEDGER }
    const paths = { '@onceward/core': ['../core/src/index.ts'] }
    const tsconfig = { extends: '../../tsconfig.test.json', compilerOptions: { paths } }
    const files = { 'packages/sqs/tsconfig.json': JSON.stringify(tsconfig) }
    const answer = lint('oxlint', { ...core, ...files, 'packages/sqs/src/a.ts': bad })
    expect(answer).toContain('no-floating-promises')
  })

  it('reports an async function where its promise is dropped', () => {
    const bad = `import { commit } from './ledger.ts'\n\nexport function charge(): void {\n  setTimeout(async () => {\n    await commit()\n  }, 1)\n}\n`
    const files = { 'packages/core/src/ledger.ts': LEDGER, 'packages/core/src/a.ts': bad }
    expect(lint('oxlint', files)).toContain('no-misused-promises')
  })

  it('reports a switch that forgets a member of its union', () => {
    const bad = `export function settle(kind: 'ack' | 'defer'): number {\n  switch (kind) {\n    case 'ack':\n      return 1\n  }\n  return 0\n}\n`
    expect(lint('oxlint', { 'packages/core/src/a.ts': bad })).toContain(
      'switch-exhaustiveness-check',
    )
  })

  it.each(['a.ts', 'a.test.ts'])(
    'reports more than 400 lines of code in %s, where blank lines and comments do not count',
    (name) => {
      const path = `packages/core/src/${name}`
      const linesOf = (count: number): string =>
        Array.from({ length: count }, (_, at) => `export type A${at} = 1\n\n// why\n`).join('')
      expect(lint('oxlint', { [path]: linesOf(400) })).toBe('')
      expect(lint('oxlint', { [path]: linesOf(401) })).toContain('max-lines')
    },
  )

  it('reports a thrown value that is no error', () => {
    const bad = `export function fail(): never {\n  throw 'no'\n}\n`
    expect(lint('oxlint', { 'packages/core/src/a.ts': bad })).toContain('only-throw-error')
  })

  it('reports a compile error that a type test expects in vain', () => {
    const bad = `// @ts-expect-error a number is no string\nexport const key: string = 'key'\n`
    expect(lint('tsc', { 'packages/core/src/a.test-d.ts': bad })).toContain('TS2578')
  })

  it('reports a client library in the core', () => {
    const answer = lint('biome', { 'packages/core/src/a.ts': `export { Pool } from 'pg'\n` })
    expect(answer).toContain('lint/style/noRestrictedImports')
    expect(answer).toContain('core knows no broker, no store and no client library')
  })

  it('reports a package that imports its sibling', () => {
    const answer = lint('biome', {
      'packages/sqs/src/a.ts': `export { pgInbox } from '@onceward/postgres/pg'\n`,
    })
    expect(answer).toContain('never on a sibling')
  })

  it('accepts that lambda imports the message formats of its siblings, and nothing else of them', () => {
    const textOf = (from: string): string => `export { a } from '${from}'\n`
    const good = ['@onceward/kafka/record', '@onceward/sqs/message'].map(textOf).join('')
    expect(lint('biome', { 'packages/lambda/src/a.ts': good })).toBe('')
    for (const from of ['@onceward/kafka', '@onceward/sqs/operator', '@onceward/amqp']) {
      const answer = lint('biome', { 'packages/lambda/src/a.ts': textOf(from) })
      expect(answer, from).toContain('never on a sibling')
    }
  })

  it('accepts that nestjs imports brokers and the relay, and no other sibling', () => {
    const textOf = (from: string): string => `export { a } from '${from}'\n`
    const good = ['@onceward/kafka', '@onceward/postgres/outbox'].map(textOf).join('')
    expect(lint('biome', { 'packages/nestjs/src/a.ts': good })).toBe('')
    for (const from of ['@onceward/redis', '@onceward/kafka/confluent', 'onceward']) {
      const answer = lint('biome', { 'packages/nestjs/src/a.ts': textOf(from) })
      expect(answer, from).toContain('never another sibling')
    }
  })

  it('reports a package that imports the command line', () => {
    const answer = lint('biome', {
      'packages/postgres/src/a.ts': `export { main } from 'onceward'\n`,
    })
    expect(answer).toContain('never on a sibling')
  })

  it('accepts that the command line imports stores', () => {
    const text = `export { migrate } from '@onceward/postgres'\n`
    expect(lint('biome', { 'packages/onceward/src/a.ts': text })).toBe('')
  })

  it.each([
    [
      'transaction',
      '../clients/pg-handle.ts',
      'transaction/ may import inbox/, driver/, statements/',
    ],
    ['inbox', '../transaction/claim.ts', 'inbox/ may import driver/, statements/'],
    ['driver', '../inbox/inbox.ts', 'driver/ may import statements/'],
    ['statements', '../driver/rows.ts', 'statements/ may import no other room'],
    ['clients', '../pg.ts', 'a room imports only errors.ts and sqlstates.ts'],
    ['operators', '../clients/pg-handle.ts', 'operators/ may import inbox/, driver/, statements/'],
    ['clients', '../operators/sweep.ts', 'imports only rooms below it'],
    ['inbox', '@onceward/redis', 'never on a sibling'],
  ])('reports that %s/ of postgres imports %s', (room, from, message) => {
    const file = `packages/postgres/src/${room}/a.ts`
    expect(lint('biome', { [file]: `export { a } from '${from}'\n` })).toContain(message)
  })

  it('accepts that rooms of postgres import rooms below them', () => {
    const below = (from: string): string => `export { a } from '${from}'\n`
    const files = {
      'packages/postgres/src/clients/a.ts': below('../transaction/a.ts'),
      'packages/postgres/src/transaction/a.ts': below('../inbox/a.ts'),
      'packages/postgres/src/inbox/a.ts': below('../statements/a.ts'),
      'packages/postgres/src/driver/a.ts': below('../errors.ts'),
      'packages/postgres/src/statements/a.ts': below('@onceward/core/adapter'),
    }
    expect(lint('biome', files)).toBe('')
  })

  it.each([
    ['answer/a.ts', '../request/request.ts', 'answer/ may import no other room'],
    ['request/a.ts', '../http-guard.ts', 'request/ may import answer/'],
    ['a.ts', './frameworks/node.ts', 'The guard of http may import answer/ and request/'],
    ['frameworks/a.ts', '../webhooks/index.ts', 'frameworks/ may import the guard of http'],
  ])('reports that %s of http imports %s', (file, from, message) => {
    const files = { [`packages/http/src/${file}`]: `export { a } from '${from}'\n` }
    expect(lint('biome', files)).toContain(message)
  })

  it('reports a dependency that the package does not declare', () => {
    const answer = lint('biome', { 'packages/sqs/src/a.ts': `export { Pool } from 'pg'\n` })
    expect(answer).toContain('lint/correctness/noUndeclaredDependencies')
  })

  it('reports a circle, also one of types alone', () => {
    const answer = lint('biome', {
      'packages/core/src/a.ts': `import type { B } from './b.ts'\n\nexport type A = B | 1\n`,
      'packages/core/src/b.ts': `import type { A } from './a.ts'\n\nexport type B = A[]\n`,
    })
    expect(answer).toContain('lint/suspicious/noImportCycles')
  })

  it.each([
    [
      'a function of more than 50 lines',
      'noExcessiveLinesPerFunction',
      `export function a(): number[] {\n  return [\n${'    1,\n'.repeat(50)}  ]\n}\n`,
    ],
    ['any', 'noExplicitAny', 'export const a: any = 1\n'],
    ['a default export', 'noDefaultExport', 'export default 1\n'],
    ['export *', 'noReExportAll', `export * from './b.ts'\n`],
    ['an enum', 'noEnum', 'export enum A {\n  B = 1,\n}\n'],
    ['console', 'noConsole', `console.log('a')\n`],
    ['an import without its extension', 'useImportExtensions', `export { b } from './b'\n`],
  ])('reports %s', (_what, rule, text) => {
    const files = {
      'packages/core/src/b.ts': 'export const b = 1\n',
      'packages/core/src/a.ts': text,
    }
    expect(lint('biome', files)).toContain(rule)
  })
})
