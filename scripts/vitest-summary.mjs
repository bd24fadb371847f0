import { writeFileSync } from 'node:fs'
import { relative } from 'node:path'

/** Title of a failure that belongs to a file, and to none of its tests. */
export const OUTSIDE = 'an error outside of its tests'

/** Errors that no test reports: a file that does not load, a hook that fails. */
function errorsOutsideTests(module) {
  let count = module.errors().length
  for (const suite of module.children.allSuites()) count += suite.errors().length
  return Array.from({ length: count }, () => OUTSIDE)
}

/** Whether the option `--tags-filter` of `npm test` and `npm run nightly` leaves the test to the other of the two. */
function isLeftOut(test, [filter] = []) {
  const isNightly = test.tags.includes('nightly')
  return filter === (isNightly ? '!nightly' : 'nightly')
}

function summaryOf(module, { root, tagsFilter }) {
  const tests = [...module.children.allTests()]
  const inState = (state) => tests.filter((test) => test.result().state === state)
  const skipped = inState('skipped')
  const left = skipped.filter((test) => isLeftOut(test, tagsFilter))
  return {
    file: relative(root, module.moduleId),
    passed: inState('passed').map((test) => test.fullName),
    failed: [...inState('failed').map((test) => test.fullName), ...errorsOutsideTests(module)],
    skipped: skipped.filter((test) => !left.includes(test)).map((test) => test.fullName),
    leftOut: left.length,
  }
}

/** Vitest reporter that writes what became of every file to the JSON file named by `ONCEWARD_SUMMARY`. */
export default class Summary {
  onInit(vitest) {
    this.config = vitest.config
  }

  onTestRunEnd(modules, unhandledErrors) {
    const files = modules.map((module) => summaryOf(module, this.config))
    let strayErrors = 0
    for (const error of unhandledErrors) {
      const path = error.VITEST_TEST_PATH
      const owner = path && files.find(({ file }) => file === relative(this.config.root, path))
      if (owner) owner.failed.push(OUTSIDE)
      else strayErrors += 1
    }
    writeFileSync(process.env.ONCEWARD_SUMMARY, JSON.stringify({ files, strayErrors }))
  }
}
