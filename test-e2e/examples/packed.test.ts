import { readdirSync, readFileSync } from 'node:fs'
import { copyFile, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { diceOf } from '../support/dice.ts'
import { linkPacked, packAll, run, type Tarballs } from './projects.ts'
import { EXAMPLES, startServers } from './servers.ts'

const root = join(import.meta.dirname, '../..')
let tarballs: Tarballs

beforeAll(async () => {
  tarballs = await packAll()
})
afterAll(() => tarballs[Symbol.asyncDispose]())

test('each package is published with its license, its sources and nothing of the build or the tests', () => {
  expect(tarballs.packed).toHaveLength(readdirSync(join(root, 'packages')).length)
  const license = readFileSync(join(root, 'LICENSE'), 'utf8')
  for (const { files, name } of tarballs.packed) {
    // An example is copied with its test.
    const paths = files.map(({ path }) => path).filter((path) => !path.startsWith('dist/examples/'))
    expect(paths, name).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']))
    const unwanted = /tsbuildinfo|\.test(-d)?\.ts$|^tsconfig|^\.turbo/
    expect(paths.filter((path) => unwanted.test(path), name)).toEqual([])
    const directory = name.replace('@onceward/', '')
    expect(readFileSync(join(root, 'packages', directory, 'LICENSE'), 'utf8'), name).toBe(license)
  }
})

const runCreate = (...args: readonly string[]): Promise<string> =>
  run(process.execPath, [tarballs.create, ...args])

const json = async (folder: string): Promise<Record<string, unknown>> =>
  JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))

test('copies an example with the versions of its own release and a name of its own', async () => {
  const folder = tarballs.folder('My Service')
  const output = await runCreate(folder, '--example', 'http-hono')
  expect(output).toContain(`cd ${folder} && npm install`)
  const { version } = await json(join(import.meta.dirname, '../../packages/core'))
  const manifest = await json(folder)
  expect(manifest).toMatchObject({
    name: 'my-service',
    dependencies: { '@onceward/core': `^${version}`, '@onceward/http': `^${version}` },
  })
  expect(manifest).not.toHaveProperty('overrides')
  for (const file of ['compose.yaml', 'README.md', 'src/app.ts', 'test/charges.test.ts']) {
    expect((await stat(join(folder, file))).isFile()).toBe(true)
  }
  expect(await readFile(join(folder, '.gitignore'), 'utf8')).toContain('node_modules/')
  expect(await readFile(join(folder, 'AGENTS.md'), 'utf8')).toContain('Do not check and then act')
})

test('refuses a folder that is not empty, and changes nothing in it', async () => {
  const folder = tarballs.folder('full')
  await mkdir(folder)
  await writeFile(join(folder, 'package.json'), '{}')
  await expect(runCreate(folder, '--example', 'http-hono')).rejects.toThrow('is not empty')
  expect(await json(folder)).toEqual({})
})

test.each([
  ['no name, without a terminal to ask at', [], 'Name one with --example'],
  ['an unknown example', ['--example', 'sqs'], 'There is no example "sqs"'],
  ['an unknown option', ['--exampel', 'sqs'], "Unknown option '--exampel'"],
  ['two folders', ['a', 'b', '--example', 'bun'], 'One folder, please'],
  ['a folder of packages without any', ['x', '--example', 'bun', '--packages', '/'], 'no onceward'],
  ['a file in place of a folder', ['/dev/null', '--example', 'bun'], 'is not a folder'],
])('refuses %s', async (_what, args, message) => {
  await expect(runCreate(...args)).rejects.toThrow(message)
})

test('asks for the example at a terminal, until the answer is one', async () => {
  const folder = tarballs.folder('asked')
  // `script` gives the program a terminal.
  const command = `printf 'none\\n2\\n' | script -qec "'${process.execPath}' '${tarballs.create}' '${folder}'" /dev/null`
  const output = await run('sh', ['-c', command])
  for (const name of Object.keys(EXAMPLES)) expect(output).toContain(name)
  expect(output).toMatch(/Which one\?[\s\S]*Which one\?/)
  expect(output).toContain('docker compose up')
  expect(await json(folder)).toMatchObject({ name: 'asked' })
})

/** Copies an example with the packed `create-onceward`; resolves with the folder. */
let created = 0

async function create(example: string): Promise<string> {
  created += 1
  const folder = tarballs.folder(`${example}-${created}`)
  const options = ['--example', example, '--packages', tarballs.directory]
  const output = await run(process.execPath, [tarballs.create, folder, ...options])
  expect(output).toContain('docker compose up')
  return folder
}

/** Each commit has its turn with one of them; the commits of a day play all. */
const names = Object.keys(EXAMPLES)
// Neither Bun nor the generator of Prisma is installed here.
const linkable = names.filter((name) => name !== 'bun' && name !== 'nest-prisma-sqs')
const dice = diceOf(Number(process.env['ONCEWARD_E2E_SEED'] ?? process.env['ONCEWARD_COMMIT_SEED']))

test('an example that the commit draws runs against the packed packages', async () => {
  const example = dice.pick(linkable) ?? ''
  const folder = await create(example)
  await linkPacked(tarballs, folder)
  await using servers = await startServers(example)
  expect(await run('npm', ['test'], { cwd: folder, env: servers.env }), example).toMatch(/pass/)
})

test('the esbuild command of docs/lambda.md makes a bundle that starts', async () => {
  const page = await readFile(join(import.meta.dirname, '../../docs/lambda.md'), 'utf8')
  const [, command = ''] = /^```sh\n(npx esbuild [\s\S]*?)^```/m.exec(page) ?? []
  const folder = await create('lambda-esbuild')
  await linkPacked(tarballs, folder)
  await run('bash', ['-euc', command], { cwd: folder })
  const load = "console.log(typeof (await import('./dist/function.mjs')).handler)"
  const args = ['--input-type=module', '--eval', load]
  expect(await run(process.execPath, args, { cwd: folder })).toBe('function\n')
})

// `walk.test.ts` installs those of the brokers.
const installed = names.filter((name) => !/sqs|kafka|rabbitmq/.test(name))

describe('what a person copies, installs and runs', { tags: ['nightly'] }, () => {
  test.each(installed)('%s', async (example) => {
    const folder = await create(example)
    await run('npm', ['install', '--no-audit', '--no-fund'], { cwd: folder })
    await run('npm', ['run', 'check'], { cwd: folder })
    await using servers = await startServers(example)
    expect(await run('npm', ['test'], { cwd: folder, env: servers.env })).toMatch(/pass/)
  })

  // Red when the packed command line does not find its workers, or a type of the sample has no package.
  test('prove, with the consumer of docs/prove.md', async () => {
    const folder = tarballs.folder('proved')
    await mkdir(folder)
    await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
    await copyFile(join(root, 'docs/samples/prove.ts'), join(folder, 'consumer.ts'))
    const ours = ['', '-core', '-postgres', '-redis', '-sqs', '-testing']
    const files = ours.map((each) => tarballs.file(`onceward${each}`))
    const theirs = ['pg', 'zod', '@aws-sdk/client-sqs']
    await run('npm', ['install', '--no-audit', '--no-fund', ...files, ...theirs], { cwd: folder })
    const plan = ['--servers', 'embedded', '--events', '30', '--kills', '6', '--seed', '7']
    const command = ['onceward', 'prove', './consumer.ts', ...plan]
    const output = await run('npx', ['--no', ...command], { cwd: folder })
    expect(output).toContain('Exact: each of the 30 events has its effect once.')
    expect(output).toMatch(/^killed with COMMIT answered +1 /m)
  })
})
