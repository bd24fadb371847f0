import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { diceOf } from '../support/dice.ts'
import { linkPacked, packAll, run, type Tarballs } from './projects.ts'
import { EXAMPLES, startServers } from './servers.ts'

let tarballs: Tarballs

beforeAll(async () => {
  tarballs = await packAll()
})
afterAll(() => tarballs[Symbol.asyncDispose]())

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
// Bun is not installed here.
const linkable = names.filter((name) => name !== 'bun')
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
})
