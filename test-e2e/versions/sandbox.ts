import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('../..', import.meta.url))
const programs = join(import.meta.dirname, 'programs')
const LONGEST_MS = 240_000

export interface Answer {
  readonly code: number
  /** Both streams. */
  readonly output: string
}

function run(
  command: string,
  args: readonly string[],
  { cwd, env = {} }: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv },
): Promise<Answer> {
  const options = { cwd, env: { ...process.env, NODE_OPTIONS: '', ...env }, timeout: LONGEST_MS }
  return new Promise((resolve) => {
    execFile(command, [...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : 1, output: `${stdout}${stderr}` })
    })
  })
}

async function must(...args: Parameters<typeof run>): Promise<void> {
  const { code, output } = await run(...args)
  if (code !== 0) throw new Error(`${args[0]} ${args[1].join(' ')} failed:\n${output}`)
}

/** Packs our packages as `npm publish` would. Removed by `dispose`. */
export async function pack(): Promise<Tarballs> {
  const folder = mkdtempSync(join(tmpdir(), 'onceward-tarballs-'))
  const args = ['pack', '--silent', '--ignore-scripts', '--workspace=packages']
  await must('npm', [...args, `--pack-destination=${folder}`], { cwd: root })
  const files = readdirSync(folder)
  return {
    path: (name) => {
      const start = name === 'onceward' ? 'onceward-' : `onceward-${name}-`
      const file = files.find(
        (each) => each.startsWith(start) && /^\d/.test(each.slice(start.length)),
      )
      if (file === undefined) throw new Error(`There is no package ${name}.`)
      return join(folder, file)
    },
    dispose: () => rmSync(folder, { recursive: true, force: true }),
  }
}

export interface Tarballs {
  /** Of a package, named as its folder. */
  path(name: string): string
  dispose(): void
}

/** An empty project outside the repository, with what npm installs in it. */
export interface Sandbox {
  readonly folder: string
  /** Generates the client of Prisma in the place of that of the documents' sample. */
  generatePrisma(named: string): Promise<void>
  /** Compiles a program against what is installed, and returns what the compiler says. */
  compile(program: string, isStrict?: boolean): Promise<string>
  /** Runs a program with a command, by default with the Node of this process. */
  run(program: string, env: NodeJS.ProcessEnv, command?: readonly string[]): Promise<Answer>
  dispose(): void
}

/**
 * Installs packages without `--legacy-peer-deps`, so npm refuses what our peer dependencies exclude.
 *
 * @param packages - Tarballs of ours, and packages of npm with their versions.
 */
export async function install(packages: readonly string[]): Promise<Sandbox> {
  const folder = mkdtempSync(join(tmpdir(), 'onceward-versions-'))
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n')
  const quick = ['--no-audit', '--no-fund', '--prefer-offline', '--no-save']
  await must('npm', ['install', ...quick, ...packages], { cwd: folder, env: NO_ENGINES })
  cpSync(programs, join(folder, 'programs'), { recursive: true })
  return {
    folder,
    generatePrisma: (named) => generatePrisma(folder, named),
    compile: async (program, isStrict = false) => {
      const compilerOptions = {
        ...{ target: 'es2022', module: 'nodenext', strict: true, noEmit: true, types: ['node'] },
        ...{ allowImportingTsExtensions: true, skipLibCheck: !isStrict },
      }
      const project = { compilerOptions, files: [`programs/${program}.ts`] }
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(project))
      const own = join(folder, 'node_modules/typescript/bin/tsc')
      const tsc = existsSync(own) ? own : join(root, 'node_modules/typescript/bin/tsc')
      const { code, output } = await run(process.execPath, [tsc, '-p', folder], { cwd: folder })
      return code === 0 ? '' : output
    },
    run: async (program, env, command = [process.execPath]) => {
      const entryPoints = [join(folder, `programs/${program}.ts`)]
      mkdirSync(join(folder, 'out'), { recursive: true })
      // The oldest Node cannot strip types.
      const outfile = join(folder, `out/${program}.mjs`)
      const options = {
        bundle: true,
        packages: 'external',
        format: 'esm',
        target: 'es2024',
      } as const
      await build({ ...options, platform: 'node', entryPoints, outfile, logLevel: 'silent' })
      const [name = '', ...args] = command
      return run(name, [...args, outfile], { cwd: folder, env })
    },
    dispose: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** The command line of Prisma downloads engines, which no client with an adapter needs. */
const NO_ENGINES = {
  PRISMA_QUERY_ENGINE_LIBRARY: '/bin/true',
  PRISMA_SCHEMA_ENGINE_BINARY: '/bin/true',
}

async function generatePrisma(folder: string, named: string): Promise<void> {
  const isOld = named.includes('@6.')
  const schema = readFileSync(join(root, 'docs/samples/prisma/schema.prisma'), 'utf8')
    .replace('"./generated"', `"./programs/prisma"${isOld ? '\n  engineType = "client"' : ''}`)
    .replace('"postgresql"', `"postgresql"${isOld ? '\n  url = env("DATABASE_URL")' : ''}`)
  writeFileSync(join(folder, 'schema.prisma'), schema)
  await must('npx', ['prisma', 'generate'], { cwd: folder, env: NO_ENGINES })
  const client = "export { type Prisma, PrismaClient } from './prisma/client.ts'\n"
  writeFileSync(join(folder, 'programs/prisma-client.ts'), client)
}

/** Where a package of npm with a program of another language keeps it. */
export const binary = ({ folder }: Sandbox, named: string, path: string): string =>
  join(folder, 'node_modules', named.slice(0, named.lastIndexOf('@')), path)
