import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { packAll, run, type Tarballs } from './projects.ts'
import { EXAMPLES } from './servers.ts'

let tarballs: Tarballs

beforeAll(async () => {
  tarballs = await packAll()
})
afterAll(() => tarballs[Symbol.asyncDispose]())

const create = (...args: readonly string[]): Promise<string> =>
  run(process.execPath, [tarballs.create, ...args])

const json = async (folder: string): Promise<Record<string, unknown>> =>
  JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))

test('copies an example with the versions of its own release and a name of its own', async () => {
  const folder = tarballs.folder('My Service')
  const output = await create(folder, '--example', 'http-hono')
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
})

test('refuses a folder that is not empty, and changes nothing in it', async () => {
  const folder = tarballs.folder('full')
  await mkdir(folder)
  await writeFile(join(folder, 'package.json'), '{}')
  await expect(create(folder, '--example', 'http-hono')).rejects.toThrow('is not empty')
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
  await expect(create(...args)).rejects.toThrow(message)
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
