import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { turbo } from './build.mjs'
import { checkPublishing } from './checks.mjs'
import { pinnedNode, root, run, tool } from './process.mjs'

const readJson = (file) => JSON.parse(readFileSync(join(root, file), 'utf8'))
const packages = () =>
  readdirSync(join(root, 'packages')).map((name) => readJson(`packages/${name}/package.json`))

async function must(command, args, options = {}) {
  const { code, output } = await run(command, args, options)
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} failed:\n${output}`)
}

/** What the samples import besides our packages, in the versions that the repository tests. */
function dependenciesOf(samples) {
  const { devDependencies } = readJson('package.json')
  const text = readdirSync(samples).map((file) => readFileSync(join(samples, file), 'utf8'))
  const isUsed = (name) => text.some((each) => each.includes(`from '${name}'`))
  return Object.entries(devDependencies)
    .filter(([name]) => isUsed(name) || name.startsWith('@types/'))
    .map(([name, version]) => `${name}@${version}`)
}

/** Installs the packed packages in an empty folder outside the repository, beside the samples of the documents. */
async function install(folder) {
  const tarballs = join(folder, 'tarballs')
  const samples = join(folder, 'samples')
  mkdirSync(tarballs)
  const pack = ['pack', '--silent', '--ignore-scripts', '--workspace=packages']
  await must('npm', [...pack, `--pack-destination=${tarballs}`], { quiet: true })
  cpSync(join(root, 'docs/samples'), samples, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n')
  const files = readdirSync(tarballs).map((file) => join(tarballs, file))
  const wanted = [...files, ...dependenciesOf(samples)]
  await must('npm', ['install', '--no-audit', '--no-fund', ...wanted], { cwd: folder, quiet: true })
  return samples
}

/** A program that loads every entry of every package, and every sample that runs nothing by itself. */
function loaderOf(samples) {
  const entries = packages().flatMap(({ name, exports = {} }) =>
    Object.keys(exports).map((entry) => name + entry.slice(1)),
  )
  const factories = readdirSync(samples).filter((file) => {
    const text = readFileSync(join(samples, file), 'utf8')
    return /^export /m.test(text) && !/^await /m.test(text)
  })
  return [...entries, ...factories.map((file) => `./samples/${file}`)]
    .map((path) => `await import('${path}')`)
    .join('\n')
}

const TSCONFIG = {
  compilerOptions: {
    ...{ target: 'es2024', module: 'nodenext', strict: true, noEmit: true, types: ['node'] },
    ...{ allowImportingTsExtensions: true, skipLibCheck: true },
  },
  include: ['samples'],
}

/** Packs, installs and runs what would be published. */
async function rehearse() {
  if ((await checkPublishing()).failed > 0) throw new Error('The packages cannot be published.')
  const folder = mkdtempSync(join(tmpdir(), 'onceward-release-'))
  try {
    console.log('packing, and installing the packages in an empty folder …')
    const samples = await install(folder)
    const inFolder = { cwd: folder, quiet: true }
    writeFileSync(join(folder, 'load.mjs'), loaderOf(samples))
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(TSCONFIG))
    await must(pinnedNode, ['load.mjs'], inFolder)
    await must(tool('tsc'), ['-p', folder], inFolder)
    await must(pinnedNode, ['node_modules/onceward/bin/onceward.js', '--version'], inFolder)
    console.log('running the samples of the documents from the packages …')
    const tests = [
      'test-e2e/repository/built',
      'test-e2e/examples/packed',
      'test-e2e/repository/samples',
    ]
    await must(tool('vitest'), ['run', '--project=e2e', ...tests], {
      env: { ONCEWARD_SAMPLES: samples },
    })
    console.log(`${packages().length} packages are ready to be published`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Turns the entries of `.changeset` into versions and changelogs. */
async function writeVersions() {
  await must(tool('changeset'), ['version'])
  const { version } = readJson('packages/otel/package.json')
  const file = join(root, 'packages/otel/src/version.ts')
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replace(/(VERSION = ')[^']*/, `$1${version}`))
  await must('npm', ['install', '--package-lock-only', '--ignore-scripts'], { quiet: true })
}

/**
 * `npm run release`: publishes what is not on npm yet, in the CI only.
 *
 * With `--dry-run`: packs and installs the packages outside the repository and runs the samples from them. With
 * `--version-only`: writes the next versions and changelogs.
 */
export async function release(args) {
  if (args.includes('--version-only')) {
    await writeVersions()
    return 0
  }
  const isRehearsal = args.includes('--dry-run')
  if (!isRehearsal && process.env.GITHUB_ACTIONS !== 'true') {
    console.error('only the workflow "release" publishes; try npm run release -- --dry-run')
    return 2
  }
  const { code, output } = await turbo('build')
  if (code !== 0) console.log(output)
  if (code !== 0) return code
  if (isRehearsal) await rehearse()
  else await must(tool('changeset'), ['publish'])
  return 0
}
