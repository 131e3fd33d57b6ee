dnl SPDX-License-Identifier: MIT OR Apache-2.0
dnl
dnl larder.m4 - needs that are gathered, and told together with Debian's package names.

dnl LARDER_MISSING(WHAT, PACKAGE): remember that WHAT is missing.
AC_DEFUN([LARDER_MISSING], [
	larder_missing="$larder_missing
  $1 (Debian package $2)"
	AS_CASE([" $larder_packages "], [*" $2 "*], [], [larder_packages="$larder_packages $2"])
])

dnl LARDER_NEED_SYSTEM: the machine that the library is written for.
AC_DEFUN([LARDER_NEED_SYSTEM], [
	AC_CANONICAL_HOST
	AS_CASE([$host_os], [linux*], [],
		[AC_MSG_ERROR([larder runs on Linux only (futex and membarrier), not on $host_os])])
	AC_CHECK_SIZEOF([void *])
	AS_IF([test "x$ac_cv_sizeof_void_p" != x8],
		[AC_MSG_ERROR([larder needs pointers of 64 bits, of which 48 are used])])
	AC_CHECK_HEADER([linux/membarrier.h], [],
		[LARDER_MISSING([header linux/membarrier.h], [linux-libc-dev])])
])

dnl LARDER_NEED_PKG(PREFIX, MODULE, PACKAGE): PREFIX_CFLAGS and PREFIX_LIBS by pkg-config.
AC_DEFUN([LARDER_NEED_PKG], [
	PKG_CHECK_MODULES([$1], [$2], [], [LARDER_MISSING([$2], [$3])])
])

dnl LARDER_NEED_HEADER(HEADER, PACKAGE)
AC_DEFUN([LARDER_NEED_HEADER], [
	AC_CHECK_HEADER([$1], [], [LARDER_MISSING([header $1], [$2])])
])

dnl LARDER_NEED_LIB(PREFIX, LIBRARY, FUNCTION, PACKAGE): PREFIX_LIBS without pkg-config.
AC_DEFUN([LARDER_NEED_LIB], [
	AC_CHECK_LIB([$2], [$3], [$1_LIBS=-l$2], [LARDER_MISSING([library lib$2], [$4])])
	AC_SUBST([$1_LIBS])
])

dnl LARDER_NEED_ALL: stop if something is missing.
AC_DEFUN([LARDER_NEED_ALL], [
	AS_IF([test "x$PKG_CONFIG" = x], [LARDER_MISSING([program pkg-config], [pkg-config])])
	AS_IF([test "x$larder_missing" != x],
		[AC_MSG_ERROR([missing:$larder_missing
On Debian:  apt-get install$larder_packages])])
])

dnl LARDER_CXX_WORKS: sets HAVE_CXX.  C++ is for tests alone, which are skipped without.
AC_DEFUN([LARDER_CXX_WORKS], [
	AC_CACHE_CHECK([whether $CXX works], [larder_cv_cxx_works], [
		AC_LANG_PUSH([C++])
		AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stdexcept>]], [[throw std::runtime_error("")]])],
			[larder_cv_cxx_works=yes], [larder_cv_cxx_works=no])
		AC_LANG_POP([C++])
	])
	AS_IF([test "x$larder_cv_cxx_works" != xyes],
		[AC_MSG_WARN([no C++ compiler (Debian package g++): tests in C++ will not be run])])
	AM_CONDITIONAL([HAVE_CXX], [test "x$larder_cv_cxx_works" = xyes])
	AC_SUBST([CXX_WORKS], [$larder_cv_cxx_works])
])

dnl LARDER_ACCEPTS(FLAG, ACTION): ACTION if the compiler knows FLAG.
AC_DEFUN([LARDER_ACCEPTS], [
	AC_MSG_CHECKING([whether $CC knows $1])
	larder_save_CFLAGS=$CFLAGS
	CFLAGS="$CFLAGS -Werror $1"
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])
		$2], [AC_MSG_RESULT([no])])
	CFLAGS=$larder_save_CFLAGS
])

dnl LARDER_SANITIZER_WORKS: the sanitizer that was asked for must link.
AC_DEFUN([LARDER_SANITIZER_WORKS], [
	AS_IF([test "x$SANITIZER_CFLAGS" != x], [
		AC_MSG_CHECKING([whether $CC links with $SANITIZER_LDFLAGS])
		larder_save_CFLAGS=$CFLAGS
		CFLAGS="$CFLAGS $SANITIZER_CFLAGS"
		AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])], [
			AC_MSG_RESULT([no])
			AC_MSG_ERROR([the sanitizer's library is missing
On Debian it comes with gcc (libgcc-12-dev) and, for clang, with libclang-rt-14-dev])
		])
		CFLAGS=$larder_save_CFLAGS
	])
])
